"""Images in; SEO file names, alt texts, smaller files and modern formats out – all on one's own machine."""

__version__ = "0.2.0"
