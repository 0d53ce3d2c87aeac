"""The describer that uses a vision model. Its answers are checked; `FactsDescriber` replaces those that fail.

If a person embedded an alt text in a requested language, that text is used and the model is not asked for that
language. The model is loaded with the first picture and unloaded after some idle time. Answers that fail the checks are
generated once more, in one batch, with the complaint in the prompt. Invariant: every translation states its source, and
a text that fails the checks is never returned.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from imgproc_local.domain.errors import ModelUnusable, StageTimedOut
from imgproc_local.domain.image import Pixels
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.domain.slug import make_slug
from imgproc_local.vision.describer import Hints
from imgproc_local.vision.facts.describer import FactsDescriber
from imgproc_local.vision.llm.cleanup import clean_answer
from imgproc_local.vision.llm.duplicate_text import ColourQuantiles, TextHistory, colour_quantiles
from imgproc_local.vision.llm.lint import alt_text_problem, filename_problem
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.prompt import Answer, language_prompt, parse_answer, shared_prompt
from imgproc_local.vision.models.model import VisionModel
from imgproc_local.vision.text.embedded_text import PictureTexts, collect_texts, first_in_language
from imgproc_local.vision.text.language import function_words

log = logging.getLogger(__name__)

RETRY_SEED = 1
CUT_OFF = "it was too long and broke off"
NOT_LATIN = "its file name must be written in Latin letters (romaji)"
REPEATED = "quite another picture got the same text"
"""Complaints: why an answer is rejected, in the words of the prompt that asks for it again. `NOT_LATIN` is for Japanese
file names: the pronunciation of kanji depends on the context, so only the model can romanise them."""
LOCK_POLL_S = 0.1
CLOSE_WAIT_S = 2.0
"""How long `close` waits for a picture that is being described. Once asked to stop, the model needs about 0.1 s."""

CheckStop = Callable[[], None]


class LlmDescriber:
    """A `Describer`.

    `find_model` returns the model to use, before each picture; None if there is no model. `self_test` tests a
    model in a child process before it is loaded. `idle_s` is the time without a picture after which the model is
    unloaded; 0 keeps it loaded.
    """

    def __init__(
        self,
        find_model: Callable[[], VisionModel | None],
        self_test: Callable[[VisionModel, CheckStop], None],
        *,
        idle_s: float = 300,
        load: Callable[[VisionModel, CheckStop], Llama] = Llama,
    ) -> None:
        self._find_model = find_model
        self._self_test = self_test
        self._idle_s = idle_s
        self._load = load
        self._facts = FactsDescriber()
        self._history = TextHistory()
        self._llama: Llama | None = None
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._logged_problem = ""

    def describe(
        self, image: Pixels, languages: Sequence[str], hints: Hints, check_stop: CheckStop
    ) -> tuple[Translation, ...]:
        check_stop()
        embedded = hints.embedded
        texts = collect_texts(embedded, hints.original_filename, embedded.gps if hints.may_use_gps else None)
        without_alt_text = [language for language in languages if not first_in_language(texts.alt_texts, language)]
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
        translations = {language: entry for language, entry in by_model.items() if entry.seo_filename}
        remaining = [language for language in languages if language not in translations]
        # if the model wrote something, the deadline no longer applies: the facts describer only takes milliseconds
        facts_check_stop = (lambda: None) if by_model else check_stop
        for from_facts in self._facts.describe(image, remaining, hints, facts_check_stop):
            language = from_facts.language_code
            without_name = by_model.get(language)
            translations[language] = (
                replace(without_name, seo_filename=from_facts.seo_filename) if without_name else from_facts
            )
        return tuple(translations[language] for language in languages)

    def close(self) -> None:
        """Unload the model; the next picture loads it again."""
        if self._timer is not None:
            self._timer.cancel()
        if self._lock.acquire(timeout=CLOSE_WAIT_S):
            try:
                self._unload()
            finally:
                self._lock.release()

    def _ask_model(
        self,
        model: VisionModel,
        image: Pixels,
        languages: Sequence[str],
        texts: PictureTexts,
        hints: Hints,
        check_stop: CheckStop,
    ) -> dict[str, Translation]:
        """The accepted answers by language; their file names may be empty."""
        shared = shared_prompt(texts, hints.project_name)
        suffixes = [language_prompt(language) for language in languages]
        with self._model_lock(check_stop):
            llama = self._ensure_loaded(model, check_stop)
            try:
                llama.prefill(image, shared, suffixes, check_stop)
                colours = colour_quantiles(image)
                generated = llama.generate(suffixes, check_stop)
                accepted, complaints = self._check(languages, generated, hints, colours, shared)
                if complaints:
                    log.info("%s: asking again for %s", model.name, _listed(complaints))
                    suffixes = [language_prompt(language, complaint) for language, complaint in complaints.items()]
                    try:
                        generated = llama.generate(suffixes, check_stop, RETRY_SEED)
                    except (StageTimedOut, ModelUnusable) as error:
                        # the accepted answers are returned nevertheless
                        log.warning("%s: using facts instead of %s: %s", model.name, _listed(complaints), error.message)
                        if isinstance(error, ModelUnusable):
                            self._unload()
                        return accepted
                    retried, complaints = self._check([*complaints], generated, hints, colours, shared)
                    accepted |= {language: entry for language, entry in retried.items() if entry.seo_filename}
                if complaints:
                    log.info("%s: using facts instead of %s", model.name, _listed(complaints))
                return accepted
            finally:
                self._start_idle_timer()

    def _check(
        self, languages: Sequence[str], generated: Sequence[str], hints: Hints, colours: ColourQuantiles, shared: str
    ) -> tuple[dict[str, Translation], dict[str, str]]:
        """The accepted answers, and the complaints about the others, by language.

        A language is in both if its alt text is accepted and its file name is not.
        """
        accepted, complaints = {}, {}
        for language, text in zip(languages, generated, strict=True):
            parsed = parse_answer(text)
            if parsed is None:
                complaints[language] = CUT_OFF
                continue
            answer = clean_answer(parsed, language)
            complaint = alt_text_problem(answer, language, original_filename=hints.original_filename, prompt=shared)
            if complaint is None and self._history.check_and_record(colours, language, answer.alt_text):
                complaint = REPEATED
            if complaint is None:
                accepted[language] = _translation(answer, language, hints)
                if not accepted[language].seo_filename:
                    complaint = NOT_LATIN
            if complaint:
                complaints[language] = complaint
        return accepted, complaints

    def _ensure_loaded(self, model: VisionModel, check_stop: CheckStop) -> Llama:
        if self._timer is not None:
            self._timer.cancel()
        if self._llama is not None and self._llama.model != model:
            self._unload()
        if self._llama is None:
            self._self_test(model, check_stop)
            self._llama = self._load(model, check_stop)
            log.info("Vision model %s loaded.", model.name)
        return self._llama

    @contextmanager
    def _model_lock(self, check_stop: CheckStop) -> Iterator[None]:
        """Hold the lock in a `with` block. While waiting for the lock, `check_stop` is called, which may raise."""
        while not self._lock.acquire(timeout=LOCK_POLL_S):
            check_stop()
        try:
            yield
        finally:
            self._lock.release()

    def _unload(self) -> None:
        if self._llama is not None:
            self._llama.close()
            log.info("Vision model %s unloaded.", self._llama.model.name)
            self._llama = None

    def _start_idle_timer(self) -> None:
        if self._idle_s and self._llama is not None:
            self._timer = threading.Timer(self._idle_s, self._unload_if_idle)
            self._timer.daemon = True
            self._timer.start()

    def _unload_if_idle(self) -> None:
        with self._lock:
            # a picture that was described since has started another timer
            if self._timer is threading.current_thread():
                self._unload()


def _listed(complaints: dict[str, str]) -> str:
    return ", ".join(f"{language} ({complaint})" for language, complaint in complaints.items())


def _translation(answer: Answer, language: str, hints: Hints) -> Translation:
    """The answer with a slug; if its file name is unsuitable, the slug is made from the alt text."""
    words = answer.filename.replace("-", " ")
    if filename_problem(answer.filename, language, original_filename=hints.original_filename):
        words = " ".join(word for word in answer.alt_text.split() if word.lower() not in function_words(language))
    slug = make_slug(words, language)
    return Translation(language, slug, answer.alt_text, TextSource.VISION)
