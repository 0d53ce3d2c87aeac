"""PNG: optimization by reducing colours (palette, posterisation) and by compressing the rows better."""
