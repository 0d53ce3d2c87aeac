"""Who wrote the alt texts and long descriptions in a file: marks in XMP, beside the texts.

`imgproc:AltTextSource` and `imgproc:ExtDescrSource` hold for each text that this program wrote, by language, the source
(`person`, `embedded` or `vision`), the first 16 digits of the text's SHA-256 and, for `vision`, the model if its name
is known. If someone edits a text in another program, its mark no longer fits, and it counts as a person's, like every
text without a mark.

IPTC's properties for generated content are not written: AISystemUsed, AISystemVersionUsed, AIPromptInformation and
AIPromptWriterName are defined by what was used “to generate this image”, as DigitalSourceType is by how the image was
made. In a photograph with a generated alt text, they would say that the photograph is generated.
Source: IPTC Photo Metadata Standard 2025.1, IPTC Extension schema.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from imgproc_local.codecs.metadata import xmp
from imgproc_local.domain.result import TextSource

MARKS = {xmp.ALT_TEXT: xmp.ALT_TEXT_SOURCE, xmp.EXTENDED_DESCRIPTION: xmp.EXTENDED_DESCRIPTION_SOURCE}
"""The properties of the marks, by that of the texts."""
_MARK = re.compile(r"(person|embedded|vision) ([0-9a-f]{16})(?: ([!-~]{1,100}))?")


class Author(Struct, frozen=True):
    """The source of a text and, for `vision`, the name of the model, "" if it is not known."""

    source: TextSource
    model: str = ""


def authors(properties: xmp.Properties, name: str) -> dict[str, Author]:
    """The authors of the texts of property `name`, by text, as far as marks fit. Texts have no white space around."""
    marks = [_MARK.fullmatch(mark) for mark in xmp.texts(properties, MARKS.get(name, ""))]
    by_sum = {mark[2]: Author(TextSource(mark[1]), mark[3] or "") for mark in marks if mark}
    texts = xmp.texts(properties, name) if by_sum else ()
    return {text: by_sum[_sum(text)] for text in texts if _sum(text) in by_sum}


def texts_of_models(properties: xmp.Properties, name: str) -> set[str]:
    """The texts of property `name` that a vision model wrote."""
    return {text for text, author in authors(properties, name).items() if author.source is TextSource.VISION}


def marks(texts: Iterable[tuple[str, str]], known: Mapping[str, Author]) -> list[tuple[str, str]]:
    """The marks of `texts`, all by `xml:lang`, of those whose authors are known."""
    return [(tag, _mark(text.strip(), known[text.strip()])) for tag, text in texts if text.strip() in known]


def _mark(text: str, author: Author) -> str:
    model = re.sub("[^!-~]+", "-", author.model)[:100]
    return f"{author.source} {_sum(text)} {model}".rstrip()


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
