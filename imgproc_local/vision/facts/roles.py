"""Suggests what a picture is for. A person decides: blind readers lose a picture that is wrongly called decorative."""

from __future__ import annotations

import re

from imgproc_local.domain.result import RoleSuggestion, SuggestedRole
from imgproc_local.vision.describer import Hints

_LOGO_NAME = re.compile(r"(?:(?<![A-Za-z])|(?=[A-Z]))(?i:logo(?:type?|tipo)?|(?:fav)?icon|wordmark)s?(?![a-z])")
"""A word of its own, also in a name like CompanyLogo.png."""


def suggested_role(hints: Hints) -> RoleSuggestion:
    """The role that the picture seems to have, and the reason."""
    facts, text, embedded = hints.facts, hints.text_in_picture, hints.embedded
    captions = (*embedded.alt_text, *embedded.description, *embedded.headline, *embedded.title)
    if facts.shows_nothing_because and not (captions or text.text or text.unread_lines):
        return RoleSuggestion(SuggestedRole.DECORATIVE, facts.shows_nothing_because)
    is_drawn = facts.kind == "graphic" or facts.is_icon
    if is_drawn and _LOGO_NAME.search(hints.original_filename):
        return RoleSuggestion(SuggestedRole.LOGO, "It is drawn, and its file name says that it is a logo or an icon.")
    if text.is_image_of_text:
        return RoleSuggestion(SuggestedRole.TEXT, "It shows little but text.")
    if is_drawn and text.labels:
        return RoleSuggestion(SuggestedRole.CHART, f"It is drawn, with {text.labels} short labels all over it.")
    if facts.is_icon:
        return RoleSuggestion(SuggestedRole.LOGO, "It is small, and drawn in few colours.")
    others = "a decoration, an image of text, a chart or a logo" if text.was_read else "a decoration or a logo"
    unread = "" if text.was_read else " It was not searched for text."
    return RoleSuggestion(SuggestedRole.INFORMATIVE, f"Nothing suggests that it is {others}.{unread}")
