"""Text analysis: the language of a text, and which texts of a picture a person wrote."""
