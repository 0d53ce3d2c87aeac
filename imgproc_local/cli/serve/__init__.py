"""`imgproc-local serve`."""
