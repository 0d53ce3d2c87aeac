"""External services, disabled by default. No connection is opened before the first picture is sent."""
