"""Queue order, fair shares and placement on workers."""
