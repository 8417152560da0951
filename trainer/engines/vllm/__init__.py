"""Engines on vLLM: in this process and on servers."""
