"""Bytes to pixels and back: what a picture is, what it carries, and how small each format can make it.

Blocking functions for worker threads. Every error that leaves this room is one of `domain.errors`.
"""
