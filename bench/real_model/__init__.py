"""A model of realistic size on a CPU: speed compared with peers, and memory compared with its estimate."""
