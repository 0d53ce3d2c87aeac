"""Words in ASCII letters from texts in any script, each by the conventions of its own script and language."""
