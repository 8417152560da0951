"""Models, files and addresses that the configuration of a run of this site may name."""
