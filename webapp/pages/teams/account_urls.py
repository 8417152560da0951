"""Addresses of accounts: logging in and out, signing up, name, mail, password. The names are those allauth asks for."""

from allauth.account import views as allauth
from allauth.socialaccount import views as social
from django.urls import include, path, re_path

from webapp.pages.teams import account_views

urlpatterns = [
    path("login", allauth.login, name="login"),
    path("login", allauth.login, name="account_login"),
    path("logout", allauth.logout, name="logout"),
    path("logout", allauth.logout, name="account_logout"),
    path("signup", account_views.signup, name="account_signup"),
    path("account", account_views.account, name="account"),
    path("account/name", account_views.rename, name="account-name"),
    path("account/inactive", allauth.account_inactive, name="account_inactive"),
    path("account/confirm", allauth.reauthenticate, name="account_reauthenticate"),
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
]
