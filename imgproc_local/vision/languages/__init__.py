"""What is known of each language: one file per language, and the module that loads it."""
