"""Pictures in, words out."""
