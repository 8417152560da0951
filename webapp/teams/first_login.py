"""The first way in: an account made at the first start, and a link that signs its owner in once.

Ordinary accounts, passwords and teams are in webapp.teams.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache

from webapp.teams.actions import do_create_team, do_create_user
from webapp.teams.models import User


class _Tokens(PasswordResetTokenGenerator):
    """Tokens that are spent by logging in: they are made from the time of the last login, among other things."""

    key_salt = "webapp.teams.first_login"


tokens = _Tokens()


def link(user: User, then: str) -> str:
    """Path of a link that signs `user` in, once, and leads on to the path `then`."""
    return f"/welcome/{user.pk}/{tokens.make_token(user)}?{urlencode({'next': then})}"


@never_cache
def welcome(request: HttpRequest, user_id: int, token: str) -> HttpResponse:
    """Follow such a link. Somebody who is signed in already just goes on."""
    then = request.GET.get("next", "/")
    if not url_has_allowed_host_and_scheme(then, allowed_hosts=None):
        then = "/"
    if request.user.is_authenticated:
        return redirect(then)
    user = User.objects.filter(pk=user_id, is_active=True).first()
    if user is not None and tokens.check_token(user, token):
        login(request, user, backend="django.contrib.auth.backends.ModelBackend")
        return redirect(then)
    messages.error(
        request,
        "This link was used before or is too old. Sign in with the name and password from the terminal, or stop and "
        "start Echoscope there for a new link.",
    )
    return redirect(f"/login?{urlencode({'next': then})}")


def first_account(file: Path, username: str) -> tuple[User, str] | None:
    """The account made at the first start, with its password kept in `file`; made now if there is nobody at all.

    None when others run this site: then nobody gets a way in from here.
    """
    if file.exists():
        known = json.loads(file.read_text(encoding="utf-8"))
        same = {"pk": known["id"]} if "id" in known else {"username": known["username"]}  # they may be renamed since
        user = User.objects.filter(is_active=True, **same).first()
        if user is not None:
            return user, known["password"] if user.check_password(known["password"]) else "(the one you chose)"
    if User.objects.exists():
        return None
    password = secrets.token_urlsafe(9)
    user = do_create_user(username, password)
    User.objects.filter(pk=user.pk).update(is_staff=True, is_superuser=True)
    do_create_team("My team", user)
    file.touch(mode=0o600)
    file.write_text(json.dumps({"id": user.pk, "username": username, "password": password}), encoding="utf-8")
    return user, password
