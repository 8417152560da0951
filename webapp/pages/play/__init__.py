"""Pages of the environments."""
