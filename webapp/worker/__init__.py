"""Celery worker: claims, supervision of trainer processes, heartbeats."""
