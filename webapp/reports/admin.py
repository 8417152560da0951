"""Reports in Django's admin: list, read and delete. They are written on their own pages."""

from django.contrib import admin
from django.http import HttpRequest

from webapp.reports.models import Report


@admin.register(Report)
class ReportAdmin(admin.ModelAdmin):
    list_display = ("title", "slug", "team", "author", "visibility", "version", "edited_at", "deleted_at")
    list_filter = ("visibility", "team")
    search_fields = ("title", "slug")
    exclude = ("runs", "trajectories")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False
