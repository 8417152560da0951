"""E-mails about mentions."""

from __future__ import annotations

import logging
from datetime import timedelta
from smtplib import SMTPException

from django.core.mail import EmailMessage
from django.db.models import F
from django.urls import reverse
from django.utils import timezone

from webapp.annotations import actions
from webapp.annotations.models import Mention
from webapp.core.mail import absolute, mail_is_configured

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 5
RETRY_DELAY = timedelta(minutes=10)
"""Time to the next attempt, after a refusal of the mail server or the death of this process."""
BATCH_SIZE = 50


def send_due() -> int:
    """Send due e-mails and return their number. Each is claimed first, so that two processes do not send it twice."""
    if not mail_is_configured():
        return 0
    now = timezone.now()
    due = Mention.objects.filter(mail_at__lte=now, comment__deleted_at=None)
    due = due.select_related("user", "comment__author", "comment__trajectory__run")
    sent = 0
    for mention in due.order_by(F("mail_at"))[:BATCH_SIZE]:
        if not Mention.objects.of(mention.user).filter(pk=mention.pk).exists():
            actions.do_finish_mail(mention)  # the user has left the team
        elif actions.do_claim_mail(mention, now, RETRY_DELAY):
            sent += _send(mention)
    return sent


def _send(mention: Mention) -> bool:
    try:
        _mail(mention).send()
    except (SMTPException, OSError) as error:
        logger.warning("The e-mail about mention %s could not be sent: %s", mention.slug, error)
        if mention.mail_tries + 1 >= MAX_ATTEMPTS:
            actions.do_finish_mail(mention)
        return False
    actions.do_finish_mail(mention)
    return True


def _mail(mention: Mention) -> EmailMessage:
    comment = mention.comment
    author = comment.author.get_username() if comment.author else "A former member"
    run = comment.trajectory.run
    where = f"an attempt of “{run.title}”" if comment.turn is None else f"turn {comment.turn + 1} in “{run.title}”"
    text = (
        f"{author} mentioned you in a comment on {where}:\n\n{comment.text}\n\n"
        f"{absolute(reverse('mention', args=[mention.slug]))}\n\n"
        f"Turn off these e-mails: {absolute(reverse('mentions'))}\n"
    )
    subject = " ".join(f"Echoscope: {author} mentioned you on {run.title}".split())[:200]
    return EmailMessage(subject, text, to=[mention.user.email], headers={"Auto-Submitted": "auto-generated"})
