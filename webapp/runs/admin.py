"""Runs and workers in Django's admin, read-only: their state changes by actions only."""

from django.contrib import admin

from webapp.runs.models import Run, Worker
from webapp.teams.admin import ReadOnly


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display = (
        "title",
        "slug",
        "team",
        "author",
        "state",
        "requested",
        "iteration",
        "queue",
        "priority",
        "worker",
        "created_at",
    )
    list_filter = ("state", "queue", "priority", "environment")
    search_fields = ("title", "slug")
    list_select_related = ("team", "author", "worker")


@admin.register(Worker)
class WorkerAdmin(ReadOnly):
    list_display = ("name", "host", "device", "device_class", "queues", "slots", "last_seen_at", "stopping")
