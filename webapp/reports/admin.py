"""Reports in Django's admin: list, read and delete. They are written on their own pages."""

from django.contrib import admin

from webapp.reports.models import Report
from webapp.teams.admin import ReadOnly


@admin.register(Report)
class ReportAdmin(ReadOnly):
    list_display = ("title", "slug", "team", "author", "visibility", "version", "edited_at")
    list_filter = ("visibility", "team")
    list_select_related = ("team", "author")
    search_fields = ("title", "slug")
    exclude = ("runs", "trajectories")
