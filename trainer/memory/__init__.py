"""Memory estimate of a run, and the retry after an out-of-memory error."""
