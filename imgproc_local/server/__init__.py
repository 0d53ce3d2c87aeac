"""The HTTP server: uvicorn with limits that hold before a request has shown an API key."""
