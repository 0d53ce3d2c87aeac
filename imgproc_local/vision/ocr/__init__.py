"""Reads text in pictures, with PP-OCR on onnxruntime in a process of its own."""
