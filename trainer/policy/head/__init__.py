"""The output layer, and computations on its logits."""
