"""How views ask who is there, where an account is not always needed. What a role allows is decided in access.py."""

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
    """For pages that are open to everybody when their run is: what nobody in particular may not see asks for a login.

    The view finds its object by `visible_to(request.user)` and raises Http404; whether there is one at all is not told
    to those who have not logged in. Search engines are asked to stay away from what is open.
    """

    @wraps(view)
    def answer(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        try:
            response = view(request, *args, **kwargs)
        except Http404:
            if request.user.is_authenticated:
                raise
            return redirect_to_login(request.get_full_path())
        if not request.user.is_authenticated:
            response.headers.setdefault("X-Robots-Tag", "noindex, nofollow")
        return response

    return answer
