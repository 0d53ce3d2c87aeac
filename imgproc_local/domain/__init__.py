"""What the service talks about: pictures, plans, jobs, credits, keys. No I/O, no clock, no framework."""
