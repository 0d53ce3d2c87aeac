"""PNG: optimisation by palettes, posterisation and better compression of the filtered rows."""
