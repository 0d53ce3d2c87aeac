"""Takes jobs in, runs their stages, keeps every outcome."""
