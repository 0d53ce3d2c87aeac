"""Descriptions without a vision model: from metadata, the file name and the kind of picture."""
