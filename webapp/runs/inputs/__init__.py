"""What the configuration of a run of this site may name: models, files, addresses."""
