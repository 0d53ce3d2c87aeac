"""Collects the tables of character widths, which Rich imports by the version of Unicode that the terminal has."""

from PyInstaller.utils.hooks import collect_submodules

hiddenimports = collect_submodules("rich._unicode_data")
