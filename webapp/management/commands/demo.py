"""`manage.py demo`: the same as `up`, with a training run to watch."""

from webapp.management.commands.up import Command as Up


class Command(Up):
    help = "Starts everything and trains an agent on Sokoban that you can watch. Started again, it continues."
    demo = True
