"""Vision models on disk: the catalogue, downloading, importing, verifying and choosing one."""
