"""Regular expressions over responses, in PostgreSQL's dialect, which reads `\\b` as in other dialects here."""

from __future__ import annotations

import re

from django.db import DataError, connection, transaction

_WORD_BOUNDARY = re.compile(r"(?<!\\)((?:\\\\)*)\\b")


def as_postgres(pattern: str) -> str:
    """Return the pattern with `\\y` for `\\b`, which PostgreSQL reads as a backspace."""
    return _WORD_BOUNDARY.sub(r"\1\\y", pattern)


def problem(pattern: str) -> str:
    """Return why PostgreSQL rejects a pattern, in its words; empty if it accepts it. One query."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT '' ~ %s", [as_postgres(pattern)])
    except DataError as error:
        return str(error).splitlines()[0].removeprefix("invalid regular expression: ")
    return ""
