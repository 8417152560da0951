"""Users, teams, invitations and tokens in Django's admin, which uses the site's login."""

from allauth.account.decorators import secure_admin_login
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.db.models import QuerySet
from django.http import HttpRequest

from webapp.teams.access import signed_in
from webapp.teams.actions import do_revoke_token
from webapp.teams.models import ApiToken, Invitation, Membership, Removal, Team, User


class MembershipInline(admin.TabularInline):
    model = Membership
    extra = 0
    autocomplete_fields = ("user",)


@admin.register(Team)
class TeamAdmin(admin.ModelAdmin):
    list_display = ("name", "slug", "created_at")
    search_fields = ("name", "slug")
    inlines = (MembershipInline,)


class ReadOnly(admin.ModelAdmin):
    """Rows that are created and changed only on the site's pages."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(Invitation)
class InvitationAdmin(ReadOnly):
    list_display = ("team", "role", "email", "author", "created_at", "expires_at", "accepted_by", "revoked_at")
    list_select_related = ("team", "author", "accepted_by")
    exclude = ("token",)


@admin.register(Removal)
class RemovalAdmin(ReadOnly):
    list_display = ("name", "team", "author", "created_at", "undone_at", "undone_by")
    list_select_related = ("team", "author", "undone_by")


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnly):
    list_display = ("name", "prefix", "team", "user", "scopes", "last_used_at", "expires_at", "revoked_at")
    list_select_related = ("team", "user")
    search_fields = ("name", "prefix", "user__username")
    exclude = ("digest",)
    actions = ("revoke",)

    @admin.action(description="Revoke the selected tokens", permissions=["delete"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        for token in queryset:
            do_revoke_token(token, signed_in(request))


admin.site.unregister([Authenticator, UserSession])  # allauth's admin pages show secrets, and let staff edit facts


@admin.register(Authenticator)
class AuthenticatorAdmin(ReadOnly):
    list_display = ("user", "type", "created_at", "last_used_at")
    list_select_related = ("user",)
    exclude = ("data",)


@admin.register(UserSession)
class UserSessionAdmin(ReadOnly):
    list_display = ("user", "created_at", "last_seen_at", "ip", "user_agent")
    list_select_related = ("user",)
    search_fields = ("user__username", "ip")
    exclude = ("data",)

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False  # a session outlives its record


admin.site.register(User, UserAdmin)
# The site's login counts failed attempts; the admin's login would not.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]
