"""Decorators of views that work with and without an account."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponseBase

P = ParamSpec("P")


def account_optional(
    view: Callable[Concatenate[HttpRequest, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Let anonymous visitors open a page if its run is public; otherwise redirect them to the login.

    The view finds its object by `visible_to(request.user)` and raises Http404. Anonymous users are redirected whether
    or not the object exists. Public pages are marked noindex.
    """

    @wraps(view)
    def wrapper(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        try:
            response = view(request, *args, **kwargs)
        except Http404:
            if request.user.is_authenticated:
                raise
            return redirect_to_login(request.get_full_path())
        if not request.user.is_authenticated:
            response.headers.setdefault("X-Robots-Tag", "noindex, nofollow")
        return response

    return wrapper
