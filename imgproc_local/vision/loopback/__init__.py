"""Vision models in other programs on this machine: Ollama, LM Studio and llama-server."""
