"""The Django site: launches trainers, ingests their journals, and shows runs, trajectories and environments."""

from webapp.celery import app as celery_app

__all__ = ["celery_app"]
