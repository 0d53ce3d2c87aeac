"""The describer that uses a vision model, in llama.cpp or in another program on this machine. The model's answers are
checked; `FactsDescriber` replaces those that fail.

If the metadata has an alt text in a requested language, or the picture is an image of text in that language, that text
is used and the model does not write in that language. The model describes the picture in English first, even if English
is not requested, unless the metadata has an English alt text. Then it writes in all other languages together, with the
English text in the prompt. If the model's English text is refused, the model is not asked in other languages, because
guesses and moods are recognised in English only. It is loaded for the first picture and unloaded after some idle time.
Answers that fail the checks are generated once more, with a complaint in the prompt. Invariant: every translation
states its source, and an answer whose alt text fails the checks is never returned.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from msgspec.structs import replace

from imgproc_local.domain.errors import CheckStop, ModelUnusable, StageTimedOut
from imgproc_local.domain.image import Pixels
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.domain.slug import make_slug
from imgproc_local.vision.describer import Hints
from imgproc_local.vision.facts.describer import (
    FactsDescriber,
    PictureTexts,
    collect_texts,
    first_in_language,
    is_image_of_readable_text,
)
from imgproc_local.vision.llm.checks import alt_text_problem, clean_answer, is_good_filename
from imgproc_local.vision.llm.prompt import (
    DRAFT_LANGUAGE,
    Answer,
    draft_note,
    language_prompt,
    parse_answer,
    picture_notes,
)
from imgproc_local.vision.models.model import AnyModel
from imgproc_local.vision.text.language import function_words

log = logging.getLogger(__name__)


class LoadedModel(Protocol):
    """A model that is ready to describe pictures: `Llama`, or a model in another program.

    `prefill` is called once per picture, and then `generate` any number of times. A prompt consists of the
    instructions, the picture, the notes and a suffix. `prefill` receives suffixes only to reserve memory for them.
    `generate` returns one answer per suffix; with a `seed`, the model samples randomly. An answer is "" if the model
    gave none. Both raise ModelUnusable, and what `check_stop` raises. `close` frees the memory of the model and may be
    called twice.
    """

    @property
    def model(self) -> AnyModel: ...

    def prefill(self, image: Pixels, notes: str, suffixes: Sequence[str], check_stop: CheckStop) -> None: ...

    def generate(self, suffixes: Sequence[str], check_stop: CheckStop, seed: int | None = None) -> list[str]: ...

    def close(self) -> None: ...


class LlmDescriber:
    """A `Describer`.

    `find_model` is called for each picture and returns the model to use, or None. `load` loads a model, after testing
    it if necessary, and raises ModelUnusable if it does not work here. `idle_s` is the time without a picture after
    which the model is unloaded; 0 keeps it loaded.
    """

    def __init__(
        self,
        find_model: Callable[[], AnyModel | None],
        load: Callable[[AnyModel, CheckStop], LoadedModel],
        *,
        idle_s: float = 300,
    ) -> None:
        self._find_model = find_model
        self._load = load
        self._idle_s = idle_s
        self._facts = FactsDescriber()
        self._loaded: LoadedModel | None = None
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._logged_problem = ""

    def describe(
        self, image: Pixels, languages: Sequence[str], hints: Hints, check_stop: CheckStop
    ) -> tuple[Translation, ...]:
        check_stop()
        texts = collect_texts(hints.embedded, hints.original_filename, languages)
        without_alt_text = [
            language
            for language in languages
            if not first_in_language(texts.alt_texts, language)
            and not is_image_of_readable_text(hints.text_in_picture, language)
        ]
        by_model: dict[str, Translation] = {}
        try:
            model = self._find_model()
            if model is None:
                self.close()
            elif without_alt_text:
                by_model = self._ask_model(model, image, without_alt_text, texts, hints, check_stop)
            self._logged_problem = ""
        except ModelUnusable as error:
            self.close()
            if error.message != self._logged_problem:
                log.warning("Pictures are described without the vision model: %s", error.message)
            self._logged_problem = error.message
        if all(language in by_model and by_model[language].seo_filename for language in languages):
            return tuple(by_model[language] for language in languages)
        # once the model has answered, the deadline is no longer checked: FactsDescriber takes only milliseconds
        facts_check_stop = (lambda: None) if by_model else check_stop
        # for all languages, because FactsDescriber uses an alt text of unknown language for the first suitable one
        facts = self._facts.describe(image, languages, hints, facts_check_stop)
        return tuple(
            # an accepted text may lack a file name
            replace(own, seo_filename=own.seo_filename or each.seo_filename)
            if (own := by_model.get(each.language_code))
            else each
            for each in facts
        )

    def close(self) -> None:
        """Unload the model; the next picture loads it again."""
        if self._timer is not None:
            self._timer.cancel()
        # a picture that is being described is stopped within 0.1 s
        if self._lock.acquire(timeout=2.0):
            try:
                self._unload()
            finally:
                self._lock.release()

    def _ask_model(
        self,
        model: AnyModel,
        image: Pixels,
        languages: Sequence[str],
        texts: PictureTexts,
        hints: Hints,
        check_stop: CheckStop,
    ) -> dict[str, Translation]:
        """The accepted answers of the model by language. A file name may be empty.

        Raises: ModelUnusable; what `check_stop` raises.
        """
        notes = picture_notes(texts, hints.project_name, hints.context, hints.text_in_picture)
        draft = first_in_language(texts.alt_texts, DRAFT_LANGUAGE)
        accepted: dict[str, Translation] = {}
        has_answered = False
        with self._lock:
            loaded = self._ensure_loaded(model, check_stop)
            try:
                loaded.prefill(image, notes, [language_prompt(language) for language in languages], check_stop)
                for answers in _answers(loaded, languages, draft, hints, notes, check_stop):
                    has_answered = True
                    accepted |= answers
            except (StageTimedOut, ModelUnusable) as error:
                if not has_answered:
                    raise
                # the answers accepted before are still returned
                written = ", ".join(accepted) or "none"
                log.warning("%s stopped. Languages with accepted answers: %s. %s", model.name, written, error.message)
                if isinstance(error, ModelUnusable):
                    self._unload()
            finally:
                self._start_idle_timer()
        return {language: entry for language, entry in accepted.items() if language in languages}

    def _ensure_loaded(self, model: AnyModel, check_stop: CheckStop) -> LoadedModel:
        """The loaded `model`. Raises: ModelUnusable; what `check_stop` raises."""
        if self._timer is not None:
            self._timer.cancel()
        if self._loaded is not None and self._loaded.model != model:
            self._unload()
        if self._loaded is None:
            self._loaded = self._load(model, check_stop)
            log.info("Vision model %s loaded.", model.name)
        return self._loaded

    def _unload(self) -> None:
        if self._loaded is not None:
            self._loaded.close()
            log.info("Vision model %s unloaded.", self._loaded.model.name)
            self._loaded = None

    def _start_idle_timer(self) -> None:
        if self._idle_s and self._loaded is not None:
            self._timer = threading.Timer(self._idle_s, self._unload_if_idle)
            self._timer.daemon = True
            self._timer.start()

    def _unload_if_idle(self) -> None:
        with self._lock:
            # if a picture was described in the meantime, another timer has been started
            if self._timer is threading.current_thread():
                self._unload()


def _answers(
    loaded: LoadedModel, languages: Sequence[str], draft: str, hints: Hints, notes: str, check_stop: CheckStop
) -> Iterator[dict[str, Translation]]:
    """Yields accepted answers by language after each call of the model: those in English, unless there is an English
    text (`draft`), and if there is one now, those in all other `languages`.
    """
    others = [language for language in languages if language != DRAFT_LANGUAGE]
    if not draft:
        for answers in _attempts(loaded, [DRAFT_LANGUAGE], "", hints, notes, check_stop):
            draft = answers[DRAFT_LANGUAGE].seo_alt_text if answers else draft
            yield answers
    if draft and others:
        yield from _attempts(loaded, others, draft_note(draft), hints, notes, check_stop)


def _attempts(
    loaded: LoadedModel, languages: Sequence[str], note: str, hints: Hints, notes: str, check_stop: CheckStop
) -> Iterator[dict[str, Translation]]:
    """Yields the accepted answers by language: first those of the first attempt, then those of the retry.

    `note` is the beginning of each suffix.
    """
    accepted: dict[str, Translation] = {}
    complaints = dict.fromkeys(languages, "")
    # the retry samples randomly, because greedy decoding tends to repeat the rejected answer
    for seed in (None, 1):
        suffixes = [note + language_prompt(language, complaint) for language, complaint in complaints.items()]
        generated = loaded.generate(suffixes, check_stop, seed)
        answers, complaints = _check(list(complaints), generated, hints, notes)
        # a retry that again lacks a file name does not replace the text that was accepted before
        accepted = {code: entry for code, entry in answers.items() if entry.seo_filename or code not in accepted}
        yield accepted
        if not complaints:
            return
        log.info("%s: refused: %s", loaded.model.name, ", ".join(f"{code} ({why})" for code, why in complaints.items()))


def _check(
    languages: Sequence[str], generated: Sequence[str], hints: Hints, notes: str
) -> tuple[dict[str, Translation], dict[str, str]]:
    """The accepted answers and the complaints, both by language.

    A language is in both if its alt text is accepted and its file name is rejected.
    """
    accepted, complaints = {}, {}
    for language, text in zip(languages, generated, strict=True):
        parsed = parse_answer(text)
        if parsed is None:
            complaints[language] = "it was too long and broke off"
            continue
        answer = clean_answer(parsed, language)
        complaint = alt_text_problem(answer, language, notes=notes, read_text=hints.text_in_picture)
        if complaint is None:
            accepted[language] = _translation(answer, language, hints)
            # `make_slug` can't romanise some, such as Arabic words of unknown pronunciation
            latin = bool(accepted[language].seo_filename)
            complaint = None if latin else "its file name must be written in Latin letters"
        if complaint:
            complaints[language] = complaint
    return accepted, complaints


def _translation(answer: Answer, language: str, hints: Hints) -> Translation:
    """The answer as a translation. If its file name is unsuitable, the slug is made from the alt text."""
    words = answer.filename.replace("-", " ")
    if not is_good_filename(answer.filename, language, original_filename=hints.original_filename):
        words = " ".join(word for word in answer.alt_text.split() if word.lower() not in function_words(language))
    slug = make_slug(words, language, language)
    return Translation(language, slug, answer.alt_text, TextSource.VISION)
