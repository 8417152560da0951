"""Studies in Django's admin: list, read and delete. They are launched and steered on their own pages."""

from django.contrib import admin

from webapp.studies.models import Study, StudyArm
from webapp.teams.admin import ReadOnly


@admin.register(Study)
class StudyAdmin(ReadOnly):
    list_display = ("title", "slug", "team", "author", "kind", "state", "visibility", "created_at")
    list_filter = ("kind", "state", "team")
    list_select_related = ("team", "author")
    search_fields = ("title", "slug")


@admin.register(StudyArm)
class StudyArmAdmin(ReadOnly):
    list_display = ("title", "study", "number", "stopped")
    list_select_related = ("study",)
    search_fields = ("study__slug", "title")
