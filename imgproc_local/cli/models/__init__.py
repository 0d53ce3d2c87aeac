"""`imgproc-local models`."""
