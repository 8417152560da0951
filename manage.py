#!/usr/bin/env python
"""Django's command line, for the settings in webapp/settings.py."""

import os
import sys


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    from webapp.core.private_files import DataFolderError, set_umask

    set_umask()
    try:
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] in {"django", "psycopg", "redis", "celery"}:
            sys.exit(f"{error.name} is not installed for {sys.executable}: `make up` sets everything up in .venv.")
        raise
    try:
        execute_from_command_line(sys.argv)
    except DataFolderError as error:
        sys.exit(f"Error: {error}")
    return 0


if __name__ == "__main__":
    from trainer.cli.broken_pipe import until_reader_gone

    sys.exit(until_reader_gone(main))
