"""Picture files in, picture files out: optimization in the same format, and conversion to others.

Blocking functions. Every error that leaves this package is one of `domain.errors`.
"""
