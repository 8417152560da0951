"""E-mail addresses that a team's rules may use: members' addresses, and others that their owners have confirmed."""

from __future__ import annotations

from datetime import timedelta
from smtplib import SMTPException

from django.core.mail import EmailMessage
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from webapp.core.mail import absolute, mail_is_configured
from webapp.core.names import without_links
from webapp.notifications.models import AlertAddress, Rule
from webapp.teams.daily_use import Kind, do_count_use
from webapp.teams.models import Membership, User

RESEND_AFTER = timedelta(minutes=10)
GENERATED = {"Auto-Submitted": "auto-generated"}


class ConfirmationNotSent(Exception):
    """The mail server refused a confirmation. The message is for users."""


def allowed_addresses(rule: Rule) -> list[str]:
    """Return addresses of the rule to which mail may be sent now. Two queries."""
    allowed = _members_addresses(rule.team_id) | set(
        AlertAddress.objects.filter(team=rule.team_id, confirmed_at__isnull=False).values_list("email", flat=True)
    )
    return [address for address in rule.addresses if address.lower() in allowed]


def unconfirmed_addresses(rule: Rule) -> list[str]:
    """Return addresses of the rule that wait for their owner's confirmation."""
    if not rule.addresses:
        return []
    allowed = set(allowed_addresses(rule))
    return [address for address in rule.addresses if address not in allowed]


def _members_addresses(team_id: int) -> set[str]:
    """Return active members' addresses in lower case, without addresses that a sign-up claimed but never confirmed."""
    members = User.objects.filter(is_active=True, memberships__team=team_id)
    rows = members.values_list("email", "emailaddress__email", "emailaddress__verified")
    account_addresses = {email.lower() for email, _, _ in rows if email}
    verified = {claimed.lower() for _, claimed, confirmed in rows if claimed and confirmed}
    open_claims = {claimed.lower() for _, claimed, confirmed in rows if claimed and not confirmed}
    return (account_addresses - open_claims) | verified


def do_send_confirmations(rule: Rule, user: User) -> list[str]:
    """Send a link to each unconfirmed address of the rule, unless it got one just now. Returns these addresses.

    Raises QuotaExceeded once the user has sent too many today, and ConfirmationNotSent.
    """
    sent: list[str] = []
    now = timezone.now()
    if not mail_is_configured():
        return sent
    for email in unconfirmed_addresses(rule):
        address, _ = AlertAddress.objects.get_or_create(team=rule.team, email=email.lower())
        if address.sent_at is not None and address.sent_at > now - RESEND_AFTER:
            continue
        do_count_use(Kind.CONFIRMATIONS, user, "You have named too many new alert addresses today.")
        try:
            _confirmation(address, user).send()
        except (SMTPException, OSError) as error:
            raise ConfirmationNotSent(f"The mail server refused {email}: {error}") from error
        AlertAddress.objects.filter(pk=address.pk).update(sent_at=now)
        sent.append(email)
    return sent


def _confirmation(address: AlertAddress, user: User) -> EmailMessage:
    link = absolute(reverse("alert-address", args=[address.token]))
    context = {"team": without_links(address.team.name), "author": user.get_username(), "address": link}
    text = render_to_string("alerts/address_mail.txt", context)
    return EmailMessage("Echoscope: confirm this address for alerts", text, to=[address.email], headers=GENERATED)


def do_confirm_address(address: AlertAddress, on: bool) -> None:
    """Confirm the address, or withdraw the confirmation."""
    AlertAddress.objects.filter(pk=address.pk).update(confirmed_at=timezone.now() if on else None)
    address.refresh_from_db()


def admins_addresses(team_id: int) -> list[str]:
    """Return addresses of the team's active admins."""
    admins = Membership.objects.filter(team=team_id, role=Membership.Role.ADMIN, user__is_active=True)
    return sorted(set(admins.exclude(user__email="").values_list("user__email", flat=True)))
