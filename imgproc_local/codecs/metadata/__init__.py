"""Metadata of every format: EXIF, IPTC-IIM, XMP and ICC profiles; what is read from it and what is removed."""
