"""Health checks, Prometheus metrics, logging and retention."""
