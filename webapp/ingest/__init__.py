"""From the journal to tables and frames."""
