"""The commands `doctor` and `verify`."""
