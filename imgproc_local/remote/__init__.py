"""Outside services, off unless configured. Nothing here opens a connection before the first picture is sent."""
