"""`models check`: drawn pictures, and a grade per language for what a model writes about them."""
