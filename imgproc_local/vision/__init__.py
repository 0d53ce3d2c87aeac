"""Describes pictures: alt texts and file names in many languages. See README.md."""
