"""Lists and changes the models of this machine, for the commands and for the local page."""
