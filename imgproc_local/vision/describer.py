"""What is known of a picture that is described: measurements of its pixels, the text in it, and other hints."""

from __future__ import annotations

from msgspec import Struct

from imgproc_local.domain.image import EmbeddedMetadata
from imgproc_local.domain.plan import Role


class PixelFacts(Struct, frozen=True):
    """The measurements of one picture.

    `kind` is "photograph", "graphic", "screenshot", "animation", or "picture" if the kind is unknown. `is_icon` says
    that the picture is drawn, small and of few colours. `shows_nothing_because` is a sentence for people if the picture
    certainly shows nothing, else "".
    """

    kind: str
    black_and_white: bool = False
    is_icon: bool = False
    shows_nothing_because: str = ""


class ReadLine(Struct, frozen=True, array_like=True):
    """One line of text in a picture.

    `confidence` is the mean probability of its characters, from 0 to 1. `aspect` is its longer side divided by its
    shorter one, `height_share` its shorter side divided by the picture's height. `box` is its left, top, right and
    bottom as shares of the picture's sides, and `edge_share` the share of the picture's edges that lie in it.
    """

    text: str
    confidence: float
    aspect: float
    height_share: float
    box: tuple[float, float, float, float]
    edge_share: float


class TextInPicture(Struct, frozen=True):
    """The text that was read in the pixels of a picture, without uncertain lines.

    `was_read` is true if the picture was searched for text, whether or not it has any. `unread_lines` is the number of
    lines that can't be read, such as those in scripts that the reader does not know. `is_image_of_text` is true if the
    picture shows little besides `text`: a poster, a sign, a page of text. `labels` is the number of short lines if they
    are spread over the picture, as in a chart, else 0. Source: W3C WAI, "Images of Text".
    """

    text: str = ""
    unread_lines: int = 0
    is_image_of_text: bool = False
    labels: int = 0
    was_read: bool = False


NO_TEXT = TextInPicture()
"""The picture was not searched for text."""


class Hints(Struct, frozen=True):
    """What is known about a picture besides its pixels.

    `facts` is what was measured in the pixels; by default nothing was. `context` is what the client says about the page
    that the picture is for, at most 500 characters; without a model, only links and buttons use it. `text_in_picture`
    is `NO_TEXT` if the picture was not searched for text. `role` is what the picture is for on that page. With
    `is_translation`, the alt text in `embedded` is to be translated.
    """

    embedded: EmbeddedMetadata
    original_filename: str = ""
    project_name: str = ""
    facts: PixelFacts = PixelFacts("picture")
    context: str = ""
    text_in_picture: TextInPicture = NO_TEXT
    role: Role = Role.INFORMATIVE
    is_translation: bool = False

    @property
    def has_function(self) -> bool:
        """Whether the picture is a link or a button, which an alt text names instead of describing the picture."""
        return self.role in (Role.LINK, Role.BUTTON)
