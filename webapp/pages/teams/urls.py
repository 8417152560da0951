"""Addresses of accounts and teams."""

from django.urls import include, path

from webapp.pages.teams import change_views, team_views

urlpatterns = [
    path("", include("webapp.pages.teams.account_urls")),
    path("team", team_views.teams, name="teams"),
    path("team/new", team_views.team_create, name="team-create"),
    path("team/<slug:slug>", team_views.team, name="team"),
    path("team/<slug:slug>/settings", change_views.team_settings, name="team-settings"),
    path("team/<slug:slug>/members/<str:username>/role", change_views.member_role, name="member-role"),
    path("team/<slug:slug>/members/<str:username>/remove", change_views.member_remove, name="member-remove"),
    path("team/<slug:slug>/invitations", change_views.invite, name="invite"),
    path("team/<slug:slug>/invitations/<slug:token>/revoke", change_views.invitation_revoke, name="invitation-revoke"),
    path("team/<slug:slug>/tokens", change_views.token_create, name="token-create"),
    path("team/<slug:slug>/tokens/<slug:prefix>/revoke", change_views.token_revoke, name="token-revoke"),
    path("team/<slug:slug>/shares/<slug:token>/revoke", change_views.share_revoke, name="team-share-revoke"),
    path("invitations/<slug:token>", team_views.invitation, name="invitation"),
]
