"""Text analysis: which language a text is in, and which words a person wrote."""
