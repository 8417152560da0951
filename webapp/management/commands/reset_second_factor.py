"""`manage.py reset_second_factor`: lets a person log in with their password only, after they lost their device."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webapp.core.formatting import plural
from webapp.teams.adapters import user_id_of_login
from webapp.teams.models import User
from webapp.teams.second_factor import do_reset_second_factor


class Command(BaseCommand):
    help = "Removes the second factors and recovery codes of an account, and ends its sessions. The password stays."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="Name or e-mail address of the account.")

    def handle(self, *args: Any, name: str, **options: Any) -> None:
        user_id = user_id_of_login(name)
        if user_id is None:
            raise CommandError(f"There is no account with the name or e-mail address {name}.")
        user = User.objects.get(pk=user_id)
        removed, ended = do_reset_second_factor(user)
        if not removed:
            self.stdout.write(f"{user.username} had no second factor. {plural(ended, 'session')} ended.")
            return
        self.stdout.write(
            f"{plural(removed, 'second factor')} of {user.username} removed, {plural(ended, 'session')} ended. "
            "Ask them to log in with their password and to set up a new one under Your account."
        )
