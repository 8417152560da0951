"""The in-process sampler on a transformers model."""
