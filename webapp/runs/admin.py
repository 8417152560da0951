"""Runs and workers in Django's admin, read-only: their state changes by actions only."""

from django.contrib import admin

from webapp.runs.models import Run, Worker


@admin.register(Run)
class RunAdmin(admin.ModelAdmin):
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

    def has_add_permission(self, request: object) -> bool:
        return False

    def has_change_permission(self, request: object, obj: object = None) -> bool:
        return False


@admin.register(Worker)
class WorkerAdmin(admin.ModelAdmin):
    list_display = ("name", "host", "device", "device_class", "queues", "slots", "last_seen_at", "stopping")

    def has_add_permission(self, request: object) -> bool:
        return False

    def has_change_permission(self, request: object, obj: object = None) -> bool:
        return False
