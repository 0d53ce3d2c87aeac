"""A picture file: the table of formats, what its header says, its published metadata and its decoded pixels."""
