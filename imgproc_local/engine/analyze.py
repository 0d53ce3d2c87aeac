"""The analyze stage: decodes a thumbnail, and has the describer write the alt texts.

Decoding runs in a worker process. The describer runs in the process of the engine, because it keeps the
vision model loaded. Text in the picture is recognized in a worker process that does nothing else (`TextReader`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.domain.errors import CheckStop, StageCancelled, StageFailed, StageTimedOut, StorageFailed
from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText, NamePeople, Pixels
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import Role
from imgproc_local.domain.privacy import clean_text
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.engine.stage import VISION_LANE, Output, Stage, WorkItem
from imgproc_local.engine.workers import MEGABYTE, WorkerError, Workers, memory_limit_bytes
from imgproc_local.vision.describer import NO_TEXT, Hints, PixelFacts, ReadLine, TextInPicture

if TYPE_CHECKING:
    from imgproc_local.vision.llm.describer import LlmDescriber

log = logging.getLogger(__name__)

THUMBNAIL_SIDE_PX = 1024
"""Maximum side of the thumbnail for the describer. Source: the size at which the vision models were evaluated."""

_OCR_SIDE_PX = 2048
"""Maximum side of the picture in which text is recognized. Larger, so that small text of a screenshot stays legible."""


class _DescriberInput(Struct, frozen=True):
    """What the describer receives: the thumbnail, what was measured in it, and the texts embedded in the metadata."""

    pixels: Pixels
    facts: PixelFacts
    embedded: EmbeddedMetadata


def describer_input(work: WorkItem, check_stop: CheckStop) -> _DescriberInput:
    """Decode and measure a thumbnail of the picture. Runs in a worker."""
    from imgproc_local.codecs.metadata.record import embedded
    from imgproc_local.codecs.picture import decode
    from imgproc_local.vision.facts.pixels import pixel_facts

    pixels = decode.thumbnail(work.original, work.info, THUMBNAIL_SIDE_PX, check_stop)
    check_stop()
    words = embedded(work.picture().record, work.options.disclosure.name_people)
    return _DescriberInput(pixels, pixel_facts(pixels, work.info, words, work.original_filename), words)


def _decode_for_ocr(work: WorkItem, check_stop: CheckStop) -> Pixels:
    """Decode the picture at the size at which text in it is recognized. Runs in a worker."""
    from imgproc_local.codecs.picture import decode

    return decode.thumbnail(work.original, work.info, _OCR_SIDE_PX, check_stop)


OCR_TIMEOUT_S = 60.0
"""How long recognizing the text of one picture may take. Most pictures take less than a second."""
_OCR_MEMORY_BYTES = 530 * MEGABYTE
"""The limit of the worker's memory. With the networks it has held 330 MB at most."""


def _decorative_texts(languages: Sequence[str], hints: Hints) -> tuple[Translation, ...]:
    """Empty alt texts, as a person decided who called the picture decorative, and file names from facts."""
    from imgproc_local.vision.facts.describer import describe_from_facts

    return tuple(
        replace(text, seo_alt_text="", source=TextSource.PERSON, needs_text_reason=None, long_description="")
        for text in describe_from_facts(languages, hints)
    )


def _translating(text: Translation, embedded: EmbeddedMetadata) -> EmbeddedMetadata:
    """`embedded` as if the only alt text of the file were `text`, which is then translated. Raises: StageFailed."""
    from imgproc_local.vision.text.human_words import human_text

    if text.needs_text or not human_text(text.seo_alt_text):
        raise StageFailed(f"The picture has no alt text in {text.language_code!r} that could be translated.")
    return replace(embedded, alt_text=(EmbeddedText(text.seo_alt_text, text.language_code),), model_alt_text=())


def _changed(texts: Sequence[Translation], source: TextSource, /, **changes: str) -> tuple[Translation, ...]:
    """`texts` with changes of those from this source."""
    return tuple(replace(text, **changes) if text.source is source else text for text in texts)


class TextReader:
    """Recognizes text in pictures. If this fails, only the text of one picture is missing, and the log says so.

    `find_networks` is called for each picture and returns the folder of the networks; None if they are not installed.
    They occupy 100 MB between pictures, so `workers` are used for nothing else; `close` ends them.
    """

    def __init__(self, workers: Workers, find_networks: Callable[[], Path | None]) -> None:
        self._workers = workers
        self._find_networks = find_networks
        self.close = workers.close

    @property
    def is_available(self) -> bool:
        """Whether the networks are installed now."""
        return self._find_networks() is not None

    def read(self, pixels: Pixels, check_stop: CheckStop) -> tuple[ReadLine, ...] | None:
        """The lines of text in a picture, in reading order; None if they could not be read.

        Raises: what `check_stop` raises.
        """
        from imgproc_local.vision.ocr import lines

        until_s = time.monotonic() + OCR_TIMEOUT_S

        def check() -> None:
            check_stop()
            if time.monotonic() > until_s:
                raise WorkerError(f"It took longer than {OCR_TIMEOUT_S:.0f} seconds.")

        try:
            request = lines.TextRequest(str(self._find_networks()), pixels)
            return self._workers.run(lines.read_lines, request, _OCR_MEMORY_BYTES, check)
        except (StageCancelled, StageTimedOut):
            raise
        except (StageFailed, StorageFailed, WorkerError) as failure:
            log.warning("The text in a picture was not read: %s", str(failure).strip().splitlines()[-1])
            return None


class Analyzer:
    """Runs the analyze stage. The describer is created for the first picture, on the vision lane's single thread.

    `text_reader` recognizes text in pictures; None if its libraries are not installed.
    """

    def __init__(
        self, workers: Workers, make_describer: Callable[[], LlmDescriber], text_reader: TextReader | None = None
    ) -> None:
        self._workers = workers
        self._make_describer = make_describer
        self._text_reader = text_reader
        self.stage = Stage(StageName.ANALYZE, VISION_LANE, self.run)

    @cached_property
    def _describer(self) -> LlmDescriber:
        return self._make_describer()

    def run(self, work: WorkItem, check_stop: CheckStop) -> Output:
        """One text per language, the suggested role, and the kinds of private data removed from texts and file name."""
        from imgproc_local.vision.facts.roles import suggested_role

        received = self._workers.run(describer_input, work, memory_limit_bytes(work.info), check_stop)
        name_people = work.options.disclosure.name_people
        translated = work.translated
        hints = Hints(
            embedded=_translating(translated, received.embedded) if translated else received.embedded,
            facts=received.facts,
            # its words may be the name of a person
            original_filename=work.original_filename if name_people is not NamePeople.NONE else "",
            project_name=work.plan.project_name,
            context=work.plan.context,
            role=work.plan.role,
            is_translation=translated is not None,
        )
        if hints.role is Role.DECORATIVE and not translated:
            texts = _decorative_texts(work.plan.languages, hints)
        else:
            if not translated:
                hints = replace(hints, text_in_picture=self._text_in_picture(work, received, check_stop))
            texts = self._describer.describe(received.pixels, work.plan.languages, hints, check_stop)
        if not work.options.pixel_texts:
            texts = _changed(texts, TextSource.PIXELS, seo_alt_text="")
        if translated:  # no text in the file was used
            return Output(texts=_changed(texts, TextSource.EMBEDDED, source=TextSource.FACTS))
        removed = {*received.embedded.removed, *clean_text(work.original_filename).removed}
        return Output(texts=texts, suggestion=suggested_role(hints), removed=tuple(sorted(removed)))

    def _text_in_picture(self, work: WorkItem, received: _DescriberInput, check_stop: CheckStop) -> TextInPicture:
        """The text in the picture; `NO_TEXT` if no text reader is installed, or if it failed."""
        if self._text_reader is None or not self._text_reader.is_available:
            return NO_TEXT
        from imgproc_local.vision.ocr.lines import text_in_picture

        pixels = received.pixels
        if max(pixels.width_px, pixels.height_px) >= THUMBNAIL_SIDE_PX:  # the picture may be larger than its thumbnail
            pixels = self._workers.run(_decode_for_ocr, work, memory_limit_bytes(work.info), check_stop)
        lines = self._text_reader.read(pixels, check_stop)
        if lines is None:
            return NO_TEXT
        found = text_in_picture(lines, received.facts.kind)
        if found.unread_lines:
            log.info("Text, unread: %d lines of a picture could not be read.", found.unread_lines)
        return found

    def unload_model(self) -> None:
        """Free the memory of a loaded model, unless a picture is being described. May be called from any thread.

        The next picture loads the model again.
        """
        if "_describer" in vars(self):
            self._describer.close()

    def close(self) -> None:
        """End the text reader's process and free the memory of a loaded model. Call it after the engine has stopped."""
        if self._text_reader is not None:
            self._text_reader.close()
        self.unload_model()
