"""The describer. It uses a vision model, in llama.cpp or in another program on this machine, if one is in use. The
model's answers are checked; descriptions from facts replace those that fail.

If the metadata has an alt text in a requested language, or the picture is an image of text in that language, that text
is used and the model does not write in that language. The model describes the picture in English first, even if English
is not requested. Then it writes in all other languages together, with the English text in the prompt. If the model's
English text is refused, the model is not asked in other languages, because guesses and moods are recognised in English
only. If the metadata has an alt text that a person wrote, in any language, the model translates that into all others
instead, and describes nothing. It is loaded for the first picture and unloaded after some idle time.
Answers that fail the checks are generated once more, with a complaint in the prompt. Invariant: every translation
states its source, and an answer whose alt text fails the checks is never returned.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from imgproc_local.domain.alt_text import sentences
from imgproc_local.domain.errors import CheckStop, ModelUnusable, StageTimedOut
from imgproc_local.domain.filename import make_slug
from imgproc_local.domain.image import Pixels
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.vision.describer import Hints
from imgproc_local.vision.facts import describer as facts
from imgproc_local.vision.facts.texts import LocalizedText, collect_texts, first_in
from imgproc_local.vision.llm import checks, prompt
from imgproc_local.vision.models.model import AnyModel, VisionModel
from imgproc_local.vision.text.words import UNSPACED, shorten

if TYPE_CHECKING:
    from imgproc_local.vision.llm.llama import Llama
    from imgproc_local.vision.llm.loopback import LoadedLoopbackModel

log = logging.getLogger(__name__)

_QUOTED = re.compile(r'["“].*["”]|\d+')
"""What a complaint quotes of an answer."""


LoadedModel: TypeAlias = "Llama | LoadedLoopbackModel"
"""A model that is ready to describe pictures: in llama.cpp, or in another program.

`prefill` is called once per picture, and then `generate` any number of times. A prompt consists of the instructions,
the picture, the notes and a suffix. `prefill` receives suffixes only to reserve memory for them. `generate` returns one
answer per suffix; with a `seed`, the model samples randomly, and `in_full` it writes a long description, after a suffix
that asks for one. An answer is "" if the model gave none. Both raise ModelUnusable, and what `check_stop` raises.
`close` frees the memory of the model and may be called twice."""
_LoadModel = Callable[[AnyModel, CheckStop], LoadedModel]


class LlmDescriber:
    """Writes an alt text and a file name of a picture in several languages.

    `find_model` is called for each picture and returns the model to use, or None. `load` loads a model, after testing
    it if necessary, and raises ModelUnusable if it does not work here. `idle_s` is the time without a picture after
    which the model is unloaded; 0 keeps it loaded.
    """

    def __init__(self, find_model: Callable[[], AnyModel | None], load: _LoadModel, *, idle_s: float = 300) -> None:
        self._find_model = find_model
        self._load = load
        self._idle_s = idle_s
        self._loaded: LoadedModel | None = None
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._logged_problem = ""

    def describe(
        self, image: Pixels, languages: Sequence[str], hints: Hints, check_stop: CheckStop
    ) -> tuple[Translation, ...]:
        """One translation per language, in their order. It blocks the thread of the vision lane.

        Raises: what `check_stop` raises. It is called at the start and while the model works, but not while the texts
        are made from facts, which takes up to half a second.
        """
        check_stop()
        # for all languages, because an alt text of unknown language is used for the first suitable one
        without_model = facts.with_function(facts.describe_from_facts(languages, hints), hints)
        by_model: dict[str, Translation] = {}
        try:
            model = self._find_model()
            if model is None:
                self.close()
            else:
                by_model = self._ask_model(model, image, languages, hints, check_stop)
            self._logged_problem = ""
        except ModelUnusable as error:
            self.close()
            if error.message != self._logged_problem:
                log.warning("Pictures are described without the vision model: %s", error.message)
            self._logged_problem = error.message
        texts = []
        for each in without_model:
            own = by_model.get(each.language_code, each)
            # an accepted text may lack these
            name, in_full = own.seo_filename or each.seo_filename, own.long_description or each.long_description
            texts.append(replace(own, seo_filename=name, long_description=in_full))
        return tuple(texts)

    def close(self) -> None:
        """Unload the model; the next picture loads it again. It may be called from any thread."""
        if self._timer is not None:
            self._timer.cancel()
        # a picture that is being described is stopped within 0.1 s
        if self._lock.acquire(timeout=2.0):
            try:
                self._unload()
            finally:
                self._lock.release()

    def _ask_model(
        self, model: AnyModel, image: Pixels, languages: Sequence[str], hints: Hints, check_stop: CheckStop
    ) -> dict[str, Translation]:
        """The accepted answers of the model by language, for those without an alt text. A file name may be empty.

        Raises: ModelUnusable; what `check_stop` raises.
        """
        texts = collect_texts(hints.embedded, hints.original_filename, languages)
        function = facts.function_text(hints, languages)
        asked = [
            language
            for language in languages
            if not (function and function.language == language)
            and not first_in(texts.alt_texts, language)
            and (function or not facts.is_image_of_readable_text(hints, language))
        ]
        if not asked:
            return {}
        notes = prompt.picture_notes(texts, hints.project_name, hints.context, hints.text_in_picture)
        with self._lock:
            loaded = self._ensure_loaded(model, check_stop)
            answers = _Answers(loaded, hints, notes, check_stop)
            try:
                loaded.prefill(image, notes, [prompt.language_prompt(language) for language in asked], check_stop)
                answers.ask_all(asked, function or _english_first(texts.alt_texts))
                if _says_more(hints) and answers.accepted:
                    answers.ask_in_full(texts.extended)
            except (StageTimedOut, ModelUnusable) as error:
                if not answers.has_answered:
                    raise
                # the answers accepted before are still returned
                written = ", ".join(answers.accepted) or "none"
                log.warning("%s stopped. Languages with accepted answers: %s. %s", model.name, written, error.message)
                if isinstance(error, ModelUnusable):
                    self._unload()
            finally:
                self._start_idle_timer()
        return {language: entry for language, entry in answers.accepted.items() if language in asked}

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


class _Answers:
    """The answers of a loaded model about one picture.

    `accepted` are those that passed the checks, by language; a file name may be empty. `has_answered` is true once the
    model has written anything.
    """

    def __init__(self, loaded: LoadedModel, hints: Hints, notes: str, check_stop: CheckStop) -> None:
        self._loaded = loaded
        self._hints = hints
        self._notes = notes
        self._check_stop = check_stop
        self.accepted: dict[str, Translation] = {}
        self.has_answered = False

    def ask_all(self, languages: Sequence[str], by_person: LocalizedText | None) -> None:
        """Have the alt text that a person wrote translated into all `languages` together. Without one, ask in English,
        and if there is an English text then, in all others together.

        Raises: ModelUnusable; what `check_stop` raises.
        """
        if by_person:
            draft = shorten(by_person.text, prompt.MAX_DRAFT_CHARS)
            self._ask(languages, prompt.draft_note(replace(by_person, text=draft), by_person=True), draft)
            return
        self._ask([prompt.DRAFT_LANGUAGE], "", "")
        others = [language for language in languages if language != prompt.DRAFT_LANGUAGE]
        if self.accepted and others:
            draft = self.accepted[prompt.DRAFT_LANGUAGE].seo_alt_text
            self._ask(others, prompt.draft_note(LocalizedText(draft, prompt.DRAFT_LANGUAGE)), draft)

    def ask_in_full(self, by_persons: Sequence[LocalizedText]) -> None:
        """Add long descriptions to the accepted answers: those that persons wrote and their translations, or else the
        model's in English and its translations. Each is asked for once.

        Raises: ModelUnusable; what `check_stop` raises.
        """
        written = [*by_persons] or self._write_in_full([prompt.DRAFT_LANGUAGE], None)
        others = [code for code in self.accepted if not first_in(written, code)]
        if others and (draft := _english_first(written)):
            written += self._write_in_full(others, draft)
        for code in self.accepted:
            in_full = first_in(written, code)
            self.accepted[code] = replace(self.accepted[code], long_description=in_full)

    def _write_in_full(self, languages: Sequence[str], draft: LocalizedText | None) -> list[LocalizedText]:
        """The usable long descriptions in `languages`."""
        suffixes = [prompt.long_prompt(language, draft) for language in languages]
        generated = self._loaded.generate(suffixes, self._check_stop, in_full=True)
        parsed = (prompt.parse_answer(text, prompt.MAX_LONG_ANSWER_CHARS) for text in generated)
        answers = zip(languages, parsed, strict=True)
        written = [LocalizedText(self._usable(answer.alt_text, code), code) for code, answer in answers if answer]
        return [each for each in written if each.text]

    def _usable(self, text: str, language: str) -> str:
        """The sentences of `text` that pass the checks of alt texts; "" if the first one does not."""
        cleaned = [checks.clean_answer(prompt.Answer("", each), language) for each in sentences(text)]
        usable = [each.alt_text for each in cleaned if self._problem(each, language) in (None, checks.A_LIST)]
        joined = ("" if language in UNSPACED else " ").join(usable)
        begins_well = usable[:1] == [cleaned[0].alt_text]
        return joined if begins_well and not checks.repeats_itself(joined, language) else ""

    def _problem(self, answer: prompt.Answer, language: str, draft: str = "") -> str | None:
        read_text = self._hints.text_in_picture
        return checks.alt_text_problem(answer, language, notes=self._notes, read_text=read_text, draft=draft)

    def _ask(self, languages: Sequence[str], note: str, draft: str) -> None:
        """Ask in `languages`, and once more in those whose answer is refused. `note` begins each suffix; it has the
        `draft` to translate, if there is one.
        """
        if self._hints.has_function:
            note = prompt.FUNCTION_NOTE.format(self._hints.role) + note
        refused = dict.fromkeys(languages, ("", ""))
        # the retry samples randomly, because greedy decoding tends to repeat the rejected answer
        for seed in (None, 1):
            suffixes = [note + prompt.language_prompt(language, *why) for language, why in refused.items()]
            generated = self._loaded.generate(suffixes, self._check_stop, seed)
            self.has_answered = True
            taken = {code: self._take(code, text, draft) for code, text in zip(refused, generated, strict=True)}
            refused = {code: why for code, why in taken.items() if why}
            if not refused:
                return
            # a complaint may quote the answer, which may quote the picture
            complaints = ", ".join(f"{code} ({_QUOTED.sub('…', why)})" for code, (why, _) in refused.items())
            log.info("%s: refused: %s", self._loaded.model.name, complaints)

    def _take(self, language: str, generated: str, draft: str) -> tuple[str, str] | None:
        """Accept an answer that passes the checks, else return the complaint about it and its alt text.

        An answer whose file name only is refused is accepted, unless one was before.
        """
        parsed = prompt.parse_answer(generated)
        if parsed is None:
            return "it had no complete alternative text", ""
        answer = checks.clean_answer(parsed, language)
        complaint = self._problem(answer, language, draft)
        if complaint and not (complaint == checks.SINGLE_WORD and self._hints.has_function):
            return complaint, answer.alt_text
        name = _file_name(answer, language, self._hints)
        if name or language not in self.accepted:
            model = _name_and_version(self._loaded.model)
            self.accepted[language] = Translation(language, name, answer.alt_text, TextSource.VISION, model=model)
        # `make_slug` can't romanise some, such as Arabic words of unknown pronunciation
        return None if name else ("its file name must be written in Latin letters", "")


def _says_more(hints: Hints) -> bool:
    """Whether an alt text is too short for what the picture says: a screenshot, or a drawing with several words that is
    more than these, such as a chart, a diagram or a map.
    """
    read = hints.text_in_picture
    has_labels = len(read.text.split()) >= 5 and not read.is_image_of_text
    return hints.facts.kind == "screenshot" or (hints.facts.kind == "graphic" and has_labels)


def _english_first(texts: Sequence[LocalizedText]) -> LocalizedText | None:
    """The English one of `texts`, else the first."""
    return next(iter(sorted(texts, key=lambda text: text.language != prompt.DRAFT_LANGUAGE)), None)


def _name_and_version(model: AnyModel) -> str:
    """The name of the model; for an installed one also the beginning of its digest, which tells its versions apart."""
    digest = model.digest if isinstance(model, VisionModel) else ""
    return f"{model.name}@{digest[:12]}" if digest else model.name


def _file_name(answer: prompt.Answer, language: str, hints: Hints) -> str:
    """The slug for the file name of an answer. If its own one is unsuitable, it is made from the alt text."""
    if checks.is_good_filename(answer.filename, language, original_filename=hints.original_filename):
        return make_slug(answer.filename.replace("-", " "), language, language)
    return facts.slug_of_alt_text(answer.alt_text, language)
