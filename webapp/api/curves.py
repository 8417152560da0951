"""Points of metrics in buckets: minimum, maximum and last value of consecutive iterations, counted by the database."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection

from webapp.api.schemas import Bucket
from webapp.runs.models import Run

_BUCKETS = """
    SELECT name, min(iteration), max(iteration), min(value), max(value), (array_agg(value ORDER BY iteration DESC))[1],
        max(tokens), max(seconds)
    FROM runs_metricpoint
    WHERE run_id = %s AND name = ANY(%s) AND iteration BETWEEN %s AND %s
    GROUP BY name, div((iteration - %s)::numeric, %s)
    ORDER BY name, min(iteration)
"""


def buckets(run: Run, names: Sequence[str], first: int, last: int, count: int) -> dict[str, list[Bucket]]:
    """At most `count` buckets for each metric; where there are that many iterations, each has its own."""
    width = max(1, -(-(last - first + 1) // count))
    found: dict[str, list[Bucket]] = {name: [] for name in names}
    with connection.cursor() as cursor:
        cursor.execute(_BUCKETS, [run.pk, list(names), first, last, first, width])
        for name, low, high, least, most, newest, tokens, seconds in cursor.fetchall():
            found[name].append(
                Bucket(
                    first_iteration=low,
                    last_iteration=high,
                    min=least,
                    max=most,
                    last=newest,
                    tokens=tokens,
                    seconds=seconds,
                )
            )
    return found
