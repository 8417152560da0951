"""URLs of accounts and teams. The account URLs have the names that django-allauth reverses."""

from allauth.account import views as allauth
from allauth.mfa.base import views as second_factor
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as authenticator_app
from allauth.mfa.webauthn import views as passkeys
from allauth.socialaccount import views as social
from django.urls import include, path, re_path
from django.views.decorators.cache import never_cache

from webapp.pages.teams import account_views, audit_views, change_views, team_views

urlpatterns = [
    path("login", allauth.login, name="login"),
    path("login", allauth.login, name="account_login"),
    path("login/code", second_factor.authenticate, name="mfa_authenticate"),
    path("login/passkey", passkeys.login_webauthn, name="mfa_login_webauthn"),
    path("logout", allauth.logout, name="logout"),
    path("logout", allauth.logout, name="account_logout"),
    path("signup", account_views.signup, name="account_signup"),
    path("account", account_views.account, name="account"),
    path("account/name", account_views.rename, name="account-name"),
    path("account/sessions/end", account_views.sessions_end, name="sessions-end"),
    path("account/sessions/<int:pk>/end", account_views.session_end, name="session-end"),
    path("account/inactive", allauth.account_inactive, name="account_inactive"),
    path("account/confirm", allauth.reauthenticate, name="account_reauthenticate"),
    path("account/confirm/code", second_factor.reauthenticate, name="mfa_reauthenticate"),
    path("account/confirm/passkey", passkeys.reauthenticate_webauthn, name="mfa_reauthenticate_webauthn"),
    path("account/second-factor", second_factor.index, name="mfa_index"),
    path("account/second-factor", second_factor.index, name="mfa_list_webauthn"),
    path("account/second-factor/app", never_cache(authenticator_app.activate_totp), name="mfa_activate_totp"),
    path("account/second-factor/app/remove", authenticator_app.deactivate_totp, name="mfa_deactivate_totp"),
    path("account/second-factor/passkeys/new", passkeys.add_webauthn, name="mfa_add_webauthn"),
    path("account/second-factor/passkeys/<int:pk>", passkeys.edit_webauthn, name="mfa_edit_webauthn"),
    path("account/second-factor/passkeys/<int:pk>/remove", passkeys.remove_webauthn, name="mfa_remove_webauthn"),
    path("account/recovery-codes", never_cache(recovery_codes.view_recovery_codes), name="mfa_view_recovery_codes"),
    path("account/recovery-codes/new", recovery_codes.generate_recovery_codes, name="mfa_generate_recovery_codes"),
    path("account/recovery-codes.txt", recovery_codes.download_recovery_codes, name="mfa_download_recovery_codes"),
    path("account/email", allauth.email, name="account_email"),
    path("account/email/sent", allauth.email_verification_sent, name="account_email_verification_sent"),
    re_path(r"^account/email/confirm/(?P<key>[-:\w]+)$", allauth.confirm_email, name="account_confirm_email"),
    path("account/password", allauth.password_change, name="account_change_password"),
    path("account/password/set", allauth.password_set, name="account_set_password"),
    path("account/password/forgotten", allauth.password_reset, name="account_reset_password"),
    path("account/password/forgotten/sent", allauth.password_reset_done, name="account_reset_password_done"),
    path(
        "account/password/new/done", allauth.password_reset_from_key_done, name="account_reset_password_from_key_done"
    ),
    re_path(
        r"^account/password/new/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)$",
        allauth.password_reset_from_key,
        name="account_reset_password_from_key",
    ),
    path("account/connections", social.connections, name="socialaccount_connections"),
    path("account/connections/signup", social.signup, name="socialaccount_signup"),
    path("account/connections/cancelled", social.login_cancelled, name="socialaccount_login_cancelled"),
    path("account/connections/error", social.login_error, name="socialaccount_login_error"),
    path("sso/", include("allauth.socialaccount.providers.openid_connect.urls")),
    path("team", team_views.teams, name="teams"),
    path("team/new", team_views.team_create, name="team-create"),
    path("team/<slug:slug>", team_views.team, name="team"),
    path("team/<slug:slug>/audit", audit_views.audit, name="team-audit"),
    path("team/<slug:slug>/audit/<slug:kind>", audit_views.audit_export, name="team-audit-export"),
    path("audit", audit_views.audit, name="site-audit"),
    path("audit/<slug:kind>", audit_views.audit_export, name="site-audit-export"),
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
