"""Pages of teams and accounts."""
