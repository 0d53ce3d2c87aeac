"""The operating system: files, locks, child processes and the network filter. Nothing about pictures."""
