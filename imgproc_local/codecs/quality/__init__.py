"""How similar two pictures look (SSIMULACRA 2), and the search for the quality setting that meets a target score."""
