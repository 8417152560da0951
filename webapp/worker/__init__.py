"""The Celery side: claims, supervision of trainer processes, heartbeats."""
