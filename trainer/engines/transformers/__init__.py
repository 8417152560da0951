"""In-process sampler on a transformers model."""
