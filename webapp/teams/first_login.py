"""First login: an account created at the first start, and a one-time login link."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from webapp.teams.actions import do_create_team, do_create_user
from webapp.teams.models import User


class _Tokens(PasswordResetTokenGenerator):
    """Tokens that a login invalidates, since they depend on the time of the last login."""

    key_salt = "webapp.teams.first_login"


tokens = _Tokens()


def link(user: User, then: str) -> str:
    """Return the path of a one-time link with a button that logs `user` in and redirects to the path `then`."""
    return f"/welcome/{user.pk}/{tokens.make_token(user)}?{urlencode({'next': then})}"


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def welcome(request: HttpRequest, user_id: int, token: str) -> HttpResponse:
    """Show a button that logs in, for a one-time link. Link previews, which only open the page, do not use it up.

    A user who is already logged in is only redirected.
    """
    then = request.GET.get("next", "/")
    if not then.startswith("/") or not url_has_allowed_host_and_scheme(then, allowed_hosts=None):
        then = "/"  # redirect() would take a word for the name of a view
    if request.user.is_authenticated:
        return redirect(then)
    user = User.objects.filter(pk=user_id, is_active=True).first()
    if user is not None and tokens.check_token(user, token):
        if request.method != "POST":
            return render(request, "account/welcome.html", {"username": user.username})
        login(request, user, backend="django.contrib.auth.backends.ModelBackend")
        return redirect(then)
    messages.error(
        request,
        "This link was used before or is too old. Log in with the name and password from the terminal, or stop and "
        "start Echoscope there for a new link.",
    )
    return redirect(f"/login?{urlencode({'next': then})}")


@dataclass(frozen=True)
class FirstAccount:
    """The account of the first start. `new`: it was created just now."""

    user: User
    password: str
    new: bool = False


def first_account(file: Path, username: str) -> FirstAccount | None:
    """Return the account of the first start, with its password stored in `file`; create it if there are no users.

    None on a site whose users were created otherwise.
    """
    if file.exists():
        record = json.loads(file.read_text(encoding="utf-8"))
        lookup = {"pk": record["id"]} if "id" in record else {"username": record["username"]}  # may be renamed since
        user = User.objects.filter(is_active=True, **lookup).first()
        if user is not None:
            changed = not user.check_password(record["password"])
            return FirstAccount(user, "(the one you chose)" if changed else record["password"])
    if User.objects.exists():
        return None
    password = secrets.token_urlsafe(9)
    user = do_create_user(username, password)
    User.objects.filter(pk=user.pk).update(is_staff=True, is_superuser=True)
    do_create_team("My team", user)
    file.touch(mode=0o600)
    file.write_text(json.dumps({"id": user.pk, "username": username, "password": password}), encoding="utf-8")
    return FirstAccount(user, password, new=True)
