"""Accepts uploads, runs the stages of their jobs and records every outcome."""
