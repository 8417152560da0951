"""Studies in Django's admin: list, read and delete. They are launched and steered on their own pages."""

from django.contrib import admin
from django.http import HttpRequest

from webapp.studies.models import Study, StudyArm


class SteeredOnPages(admin.ModelAdmin):
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(Study)
class StudyAdmin(SteeredOnPages):
    list_display = ("title", "slug", "team", "author", "kind", "state", "visibility", "created_at")
    list_filter = ("kind", "state", "team")
    list_select_related = ("team", "author")
    search_fields = ("title", "slug")


@admin.register(StudyArm)
class StudyArmAdmin(SteeredOnPages):
    list_display = ("title", "study", "number", "stopped")
    list_select_related = ("study",)
    search_fields = ("study__slug", "title")
