"""`manage.py dev`: `up` for developers; the pages restart when their code, templates or static files change."""

from webapp.management.commands.up import Command as Up


class Command(Up):
    help = "Starts the site like `up`; the web server restarts when webapp/, templates/ or static/ change."
    reload = True
