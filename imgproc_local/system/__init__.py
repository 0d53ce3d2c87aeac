"""What the operating system provides: atomic files, locks, child processes, network filters. Nothing about pictures."""
