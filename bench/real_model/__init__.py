"""A model of the size of real ones on a CPU: speed compared with peers, and memory with its estimate."""
