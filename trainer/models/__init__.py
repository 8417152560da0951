"""Installed models: the store, downloads from the Hub and the package index, import of GGUF files."""
