"""A model of the size of real ones on a CPU: speed beside peers, and memory beside its estimate."""
