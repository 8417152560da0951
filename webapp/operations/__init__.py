"""Health checks, Prometheus metrics, logging, retention, the schedule of backups, and what browsers report."""
