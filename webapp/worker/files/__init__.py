"""Files of a run on a worker: copies in object storage, and the checkpoint that the run begins with."""
