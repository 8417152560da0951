"""Samplers: token ids in, sampled token ids out."""
