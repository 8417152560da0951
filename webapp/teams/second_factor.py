"""Second factors of a login: who has one, and the reset by an operator for a person who lost theirs."""

from __future__ import annotations

from allauth.mfa.models import Authenticator
from django.db import transaction
from django.db.models import Exists, OuterRef

from webapp.teams.models import User
from webapp.teams.user_sessions import do_end_other_sessions

ASKED_FOR = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
"""Kinds that a login asks for; recovery codes only stand in for them."""


def has_second_factor(user_column: str) -> Exists:
    """Whether the user of a row has a second factor, for `annotate`."""
    return Exists(Authenticator.objects.filter(user=OuterRef(user_column), type__in=ASKED_FOR))


def second_factor_text(user: User) -> str:
    """The second factors of a user, such as “authenticator app, 2 passkeys”; empty without one."""
    kinds = list(Authenticator.objects.filter(user=user, type__in=ASKED_FOR).values_list("type", flat=True))
    passkeys = kinds.count(Authenticator.Type.WEBAUTHN)
    parts = ["authenticator app"] if Authenticator.Type.TOTP in kinds else []
    if passkeys:
        parts.append("1 passkey" if passkeys == 1 else f"{passkeys} passkeys")
    return ", ".join(parts)


@transaction.atomic
def do_reset_second_factor(user: User) -> tuple[int, int]:
    """Remove the user's second factors and recovery codes, and end all their sessions: a lost device may have one.

    Returns the numbers of removed factors and of ended sessions.
    """
    removed = Authenticator.objects.filter(user=user, type__in=ASKED_FOR).count()
    Authenticator.objects.filter(user=user).delete()
    return removed, do_end_other_sessions(user, current_key=None)
