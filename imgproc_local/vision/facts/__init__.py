"""Descriptions without a vision model: from metadata, the file name and measured colours."""
