"""The describer that looks: a vision model writes, its answers are checked, and the facts stand in for what fails.

A person's own alt text in a language asked for stands, and the model is not asked for that language. The model is
loaded for the first picture and given back after a while without one. Invariant: every translation says who wrote it,
and no answer that the lint refuses is ever published as the model's. What is refused is asked for once more, with the
reason, each language on its own but all of them in one batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from imgproc_local.domain.errors import ModelUnusable, StageTimedOut
from imgproc_local.domain.image import Pixels
from imgproc_local.domain.result import Source, Translation
from imgproc_local.domain.slug import make_slug
from imgproc_local.vision.describer import Hints
from imgproc_local.vision.facts.describer import FactsDescriber
from imgproc_local.vision.llm.duplicate_text import Look, TextHistory, colour_profile
from imgproc_local.vision.llm.lint import alt_text_problem, clean_answer, filename_problem
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.prompt import Answer, language_prompt, parse_answer, shared_prompt
from imgproc_local.vision.models.model import VisionModel
from imgproc_local.vision.text.embedded_text import PictureTexts, collect_texts, first_in_language
from imgproc_local.vision.text.language import function_words

log = logging.getLogger(__name__)

RETRY_SEED = 1
CUT_OFF = "it was too long and broke off"
NOT_LATIN = "its file name must be written in Latin letters (romaji)"
"""Kanji: how they are read is for the model to say."""
SAME_TEXT = "quite another picture got the same text"
LOCK_POLL_S = 0.1
CLOSE_WAIT_S = 2.0
"""For a picture that was told to stop; it takes a tenth of a second."""

CheckStop = Callable[[], None]


class LlmDescriber:
    """A `Describer`. `find_model` tells the model in use before each picture, None for none; `prove` tries one that
    was never loaded here, in a child process. `idle_s` 0 keeps the model for good.
    """

    def __init__(
        self,
        find_model: Callable[[], VisionModel | None],
        prove: Callable[[VisionModel, CheckStop], None],
        *,
        idle_s: float = 300,
        load: Callable[[VisionModel, CheckStop], Llama] = Llama,
    ) -> None:
        self._find_model = find_model
        self._prove = prove
        self._idle_s = idle_s
        self._load = load
        self._facts = FactsDescriber()
        self._seen = TextHistory()
        self._llama: Llama | None = None
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._told = ""

    def describe(
        self, image: Pixels, languages: Sequence[str], hints: Hints, check_stop: CheckStop
    ) -> tuple[Translation, ...]:
        check_stop()
        embedded = hints.embedded
        texts = collect_texts(embedded, hints.original_filename, embedded.gps if hints.may_use_gps else None)
        asked = [language for language in languages if not first_in_language(texts.alt_texts, language)]
        seen: dict[str, Translation] = {}
        try:
            model = self._find_model()
            if model is None:
                self.close()
            elif asked:
                seen = self._look(model, image, asked, texts, hints, check_stop)
            self._told = ""
        except ModelUnusable as error:
            self.close()
            if error.message != self._told:
                log.warning("pictures are described without the vision model: %s", error.message)
            self._told = error.message
        named = {language: entry for language, entry in seen.items() if entry.seo_filename}
        rest = [language for language in languages if language not in named]
        # where the model took all the time, some milliseconds more save what it wrote
        check_facts = (lambda: None) if seen else check_stop
        for facts in self._facts.describe(image, rest, hints, check_facts):
            unnamed = seen.get(facts.language_code)
            named[facts.language_code] = replace(unnamed, seo_filename=facts.seo_filename) if unnamed else facts
        return tuple(named[language] for language in languages)

    def close(self) -> None:
        """Gives the model's memory back; the next picture loads it again. A failed model is not trusted further."""
        if self._timer is not None:
            self._timer.cancel()
        if self._lock.acquire(timeout=CLOSE_WAIT_S):
            try:
                self._unload()
            finally:
                self._lock.release()

    def _look(
        self,
        model: VisionModel,
        image: Pixels,
        languages: Sequence[str],
        texts: PictureTexts,
        hints: Hints,
        check_stop: CheckStop,
    ) -> dict[str, Translation]:
        """What the model wrote and the lint passed, by language."""
        shared = shared_prompt(texts, hints.project_name)
        tails = [language_prompt(language) for language in languages]
        with self._holding(check_stop):
            llama = self._loaded(model, check_stop)
            try:
                llama.read(image, shared, tails, check_stop)
                look = colour_profile(image)
                seen, refused = self._sorted(languages, llama.write(tails, check_stop), hints, look, shared)
                if refused:
                    log.info("%s: asked again for %s", model.name, _listed(refused))
                    tails = [language_prompt(language, complaint) for language, complaint in refused.items()]
                    try:
                        written = llama.write(tails, check_stop, RETRY_SEED)
                    except (StageTimedOut, ModelUnusable) as error:
                        # what is good already is not given up for what may not become so
                        log.warning("%s: the facts stand in for %s: %s", model.name, _listed(refused), error.message)
                        if isinstance(error, ModelUnusable):
                            self._unload()
                        return seen
                    better, refused = self._sorted([*refused], written, hints, look, shared)
                    seen |= {language: entry for language, entry in better.items() if entry.seo_filename}
                if refused:
                    log.info("%s: the facts stand in for %s", model.name, _listed(refused))
                return seen
            finally:
                self._await_idleness()

    def _sorted(
        self, languages: Sequence[str], written: Sequence[str], hints: Hints, look: Look, shared: str
    ) -> tuple[dict[str, Translation], dict[str, str]]:
        """The answers worth publishing, and what is wrong with them and the others, both by language."""
        good, refused = {}, {}
        for language, text in zip(languages, written, strict=True):
            raw = parse_answer(text)
            if raw is None:
                refused[language] = CUT_OFF
                continue
            answer = clean_answer(raw, language)
            complaint = alt_text_problem(answer, language, original_filename=hints.original_filename, noted=shared)
            if complaint is None and self._seen.on_unlike(look, language, answer.alt_text):
                complaint = SAME_TEXT
            if complaint is None:
                good[language] = _translation(answer, language, hints)
                if not good[language].seo_filename:
                    # the text stands, whatever a second answer brings
                    complaint = NOT_LATIN
            if complaint:
                refused[language] = complaint
        return good, refused

    def _loaded(self, model: VisionModel, check_stop: CheckStop) -> Llama:
        if self._timer is not None:
            self._timer.cancel()
        if self._llama is not None and self._llama.model != model:
            self._unload()
        if self._llama is None:
            self._prove(model, check_stop)
            self._llama = self._load(model, check_stop)
            log.info("vision model %s loaded", model.name)
        return self._llama

    @contextmanager
    def _holding(self, check_stop: CheckStop) -> Iterator[None]:
        """Alone with the model, unless the stage ends before: an earlier picture may hang in it."""
        while not self._lock.acquire(timeout=LOCK_POLL_S):
            check_stop()
        try:
            yield
        finally:
            self._lock.release()

    def _unload(self) -> None:
        if self._llama is not None:
            self._llama.close()
            log.info("vision model %s unloaded", self._llama.model.name)
            self._llama = None

    def _await_idleness(self) -> None:
        if self._idle_s and self._llama is not None:
            self._timer = threading.Timer(self._idle_s, self._unload_if_idle)
            self._timer.daemon = True
            self._timer.start()

    def _unload_if_idle(self) -> None:
        with self._lock:
            # a picture that came in between has set a timer of its own
            if self._timer is threading.current_thread():
                self._unload()


def _listed(refused: dict[str, str]) -> str:
    return ", ".join(f"{language} ({complaint})" for language, complaint in refused.items())


def _translation(answer: Answer, language: str, hints: Hints) -> Translation:
    words = answer.filename.replace("-", " ")
    if filename_problem(answer.filename, language, original_filename=hints.original_filename):
        words = " ".join(word for word in answer.alt_text.split() if word.lower() not in function_words(language))
    slug = make_slug(words, language)
    return Translation(language, slug, answer.alt_text, Source.VISION)
