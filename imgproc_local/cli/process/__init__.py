"""`imgproc-local process`."""
