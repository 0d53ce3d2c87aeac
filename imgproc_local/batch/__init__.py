"""What every command that processes many pictures shares: what is made of each, its files, names and texts."""
