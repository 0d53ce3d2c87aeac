"""The HTTP face: forms in, published shapes out."""
