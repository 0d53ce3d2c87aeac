"""Vision models on disk: the catalogue, and downloading, importing, verifying and selecting a model."""
