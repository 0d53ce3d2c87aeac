"""JPEG: optimization, the encoders that it chooses from, and lossless recompression of the scans."""
