"""Describes pictures: alt texts and file names in 36 languages. See README.md."""
