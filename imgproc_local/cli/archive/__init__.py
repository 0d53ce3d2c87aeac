"""`imgproc-local archive`."""
