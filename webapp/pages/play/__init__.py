"""Pages of environments and of the games on them."""
