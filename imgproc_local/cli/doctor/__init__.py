"""`imgproc-local doctor`."""
