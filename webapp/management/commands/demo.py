"""`manage.py demo`: `up` with a training run to watch."""

from webapp.management.commands.up import Command as Up


class Command(Up):
    help = "Starts the site and trains an agent on Sokoban to watch; a second start resumes the run."
    demo = True
