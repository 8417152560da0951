"""GGUF files as transformers folders: configuration, tokenizer and dequantised weights."""
