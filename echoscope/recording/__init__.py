"""Recording of runs: writer of their journal, the recorder around it, and its upload while it grows."""
