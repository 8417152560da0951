"""The Celery application, of worker and clock."""

import os

from celery import Celery

os.umask(0o077)  # as in webapp.core.private_files, which is above this module
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

app = Celery("echoscope")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
