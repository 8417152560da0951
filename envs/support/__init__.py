"""Parts that several environments share."""
