"""The fields of EXIF, IPTC-IIM and text blocks that are published, and the XMP properties of the same meaning."""

from __future__ import annotations

from imgproc_local.codecs.metadata import exif, iptc, xmp

IPTC_DATASETS = {
    iptc.OBJECT_NAME: xmp.DC + "title",
    iptc.CAPTION: xmp.DC + "description",
    iptc.COPYRIGHT: xmp.DC + "rights",
    iptc.BYLINE: xmp.DC + "creator",
    iptc.KEYWORDS: xmp.DC + "subject",
    iptc.HEADLINE: xmp.PHOTOSHOP + "Headline",
    iptc.CREDIT: xmp.PHOTOSHOP + "Credit",
    iptc.SOURCE: xmp.PHOTOSHOP + "Source",
    iptc.INSTRUCTIONS: xmp.PHOTOSHOP + "Instructions",
    iptc.BYLINE_TITLE: xmp.PHOTOSHOP + "AuthorsPosition",
    iptc.CAPTION_WRITER: xmp.PHOTOSHOP + "CaptionWriter",
    iptc.CITY: xmp.PHOTOSHOP + "City",
    iptc.PROVINCE: xmp.PHOTOSHOP + "State",
    iptc.COUNTRY: xmp.PHOTOSHOP + "Country",
    iptc.COUNTRY_CODE: xmp.CORE + "CountryCode",
    iptc.SUBLOCATION: xmp.CORE + "Location",
}
"""The IIM datasets that are preserved, and the XMP properties of the same meaning.

Source: IPTC Photo Metadata Standard, mapping guidelines.
"""

EXIF_FIELDS = {
    exif.IMAGE_DESCRIPTION: xmp.DC + "description",
    exif.ARTIST: xmp.DC + "creator",
    exif.COPYRIGHT: xmp.DC + "rights",
    exif.XP_TITLE: xmp.DC + "title",
    exif.XP_COMMENT: xmp.DC + "description",
    exif.XP_AUTHOR: xmp.DC + "creator",
    exif.XP_KEYWORDS: xmp.DC + "subject",
    exif.XP_SUBJECT: xmp.PHOTOSHOP + "Headline",
}
"""The fields of EXIF that are preserved, and the XMP properties of the same meaning.

Windows' subject is a line about the whole picture, as a headline is; `dc:subject` are keywords.
"""

TEXT_NAMES = {
    "title": xmp.DC + "title",
    "author": xmp.DC + "creator",
    "description": xmp.DC + "description",
    "comment": xmp.DC + "description",
    "copyright": xmp.DC + "rights",
    "disclaimer": xmp.RIGHTS + "UsageTerms",
}
"""The keywords of PNG texts, and `comment` for those of a GIF, likewise.

Source: W3C PNG specification, third edition, 11.3.3.1.
"""
