"""`manage.py judge_attempts`: judges the actions of ended attempts at once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webapp.ingest.marks import do_judge_attempts, forget, waiting
from webapp.runs.models import Run


class Command(BaseCommand):
    help = (
        "Store the marks of mistakes of attempts that wait for it. The clock does the same in the background; this is "
        "for many earlier attempts, or after a correction of a solver (--again)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "runs", nargs="*", metavar="SLUG", help="Runs, as in the addresses of their pages; none = all."
        )
        parser.add_argument("--again", action="store_true", help="also those that have been judged")

    def handle(self, *args: Any, **options: Any) -> None:
        runs = Run.objects.order_by("pk")
        if wanted := options["runs"]:
            runs = runs.filter(slug__in=wanted)
            if missing := set(wanted) - set(runs.values_list("slug", flat=True)):
                raise CommandError(f"There is no run {', '.join(sorted(missing))}.")
        for run in runs:
            if options["again"]:
                forget(run)
            if count := do_judge_attempts(waiting([run])):
                self.stdout.write(f"{count} attempts judged: /runs/{run.slug}/trajectories")
