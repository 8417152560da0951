"""Share links in Django's admin: list and revoke."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from webapp.teams.access import signed_in
from webapp.trajectories.actions import do_revoke_share
from webapp.trajectories.models import ShareLink


@admin.register(ShareLink)
class ShareLinkAdmin(admin.ModelAdmin):
    list_display = ("token", "trajectory", "author", "created_at", "expires_at", "revoked_at")
    list_select_related = ("trajectory", "author")
    raw_id_fields = ("trajectory", "author")
    actions = ("revoke",)

    @admin.action(description="Revoke the selected links")
    def revoke(self, request: HttpRequest, queryset: QuerySet[ShareLink]) -> None:
        for share in queryset:
            do_revoke_share(share, signed_in(request))
