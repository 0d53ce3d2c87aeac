"""JPEG: optimisation, the encoders it chooses from, and lossless repacking of the entropy-coded scans."""
