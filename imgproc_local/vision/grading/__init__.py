"""Grades a model on this machine, on pictures whose content is known."""
