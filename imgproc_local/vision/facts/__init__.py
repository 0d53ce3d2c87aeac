"""Descriptions without a vision model: from metadata, file names and measured colours."""
