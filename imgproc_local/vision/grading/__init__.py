"""Grades a model on this machine by its descriptions of pictures whose content is known."""
