"""The output layer, and what is computed from its logits."""
