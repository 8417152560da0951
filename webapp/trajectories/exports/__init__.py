"""Downloads of trajectories and runs: documents, transcripts, tables, animations."""
