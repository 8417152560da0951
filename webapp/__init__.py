"""The site: launches trainers, stores what they tell, shows it. No training and no rules of a world live here."""

from webapp.celery import app as celery_app

__all__ = ["celery_app"]
