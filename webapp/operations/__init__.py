"""Health and readiness, Prometheus metrics, logging, retention."""
