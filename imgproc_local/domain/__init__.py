"""The data and rules of the service: pictures, plans, jobs, prices, keys, errors. No I/O, no clock, no framework."""
