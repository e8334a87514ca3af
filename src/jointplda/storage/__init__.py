"""Files of our own: safetensors, written whole or not at all, and records as such files."""
