"""Forms of accounts and teams."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from allauth.account.adapter import get_adapter
from django import forms
from django.utils import timezone

from webapp.teams.models import ApiToken, Membership, User

MAX_RETENTION_DAYS = 36_500


class NameForm(forms.Form):
    """The user's own name."""

    username = forms.CharField(
        label="Name",
        max_length=150,
        help_text="For logging in and for mentions: letters, digits, @ . + - _",
    )

    def __init__(self, data: Any = None, *, user: Any) -> None:
        self.user: User = user
        super().__init__(data, initial={"username": user.get_username()})

    def clean_username(self) -> str:
        username: str = self.cleaned_data["username"]
        is_unchanged = (
            username.lower() == self.user.username.lower()
        )  # the user's own name in another case is not taken
        clean: str = get_adapter().clean_username(username, shallow=is_unchanged)
        return clean


class TeamForm(forms.Form):
    """A team's name and retention."""

    name = forms.CharField(max_length=120)
    retention_days = forms.IntegerField(
        label="Keep training attempts for", required=False, min_value=1, max_value=MAX_RETENTION_DAYS
    )


class InviteForm(forms.Form):
    """An invitation: e-mail address and role."""

    email = forms.EmailField(required=False)
    role = forms.ChoiceField(choices=Membership.Role.choices)


class TokenForm(forms.Form):
    """A new API token."""

    LASTS = (("30", "30 days"), ("90", "90 days"), ("365", "one year"), ("", "never"))

    name = forms.CharField(max_length=100)
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in ApiToken.SCOPES],
        error_messages={"required": "Choose what the token may do: read, write or both."},
    )
    lasts = forms.ChoiceField(choices=LASTS, required=False)

    def expires_at(self) -> datetime | None:
        """Return the expiry of the token; None = never."""
        days = self.cleaned_data["lasts"]
        return timezone.now() + timedelta(days=int(days)) if days else None


def problem(form: forms.BaseForm) -> str:
    """Return the first error of a form, with its field's label."""
    name, errors = next(iter(form.errors.items()))
    label = form.fields[name].label or name.replace("_", " ").capitalize() if name in form.fields else ""
    return f"{label}: {errors[0]}" if label else str(errors[0])
