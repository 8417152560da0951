"""`manage.py compare_thoughts`: compares the thoughts of earlier runs with their states."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webapp.ingest.thought_check import do_compare_thoughts
from webapp.runs.models import Run


class Command(BaseCommand):
    help = (
        "Find the claims in thoughts of runs that were trained before claims existed, or imported or rebuilt from such "
        "a journal. It can be repeated: what has been compared stays as it is."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "runs", nargs="*", metavar="SLUG", help="Runs, as in the addresses of their pages; none = all."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        runs = Run.objects.order_by("pk")
        if wanted := options["runs"]:
            runs = runs.filter(slug__in=wanted)
            if missing := set(wanted) - set(runs.values_list("slug", flat=True)):
                raise CommandError(f"There is no run {', '.join(sorted(missing))}.")
        for run in runs:
            if count := do_compare_thoughts(run):
                self.stdout.write(f"{count} thoughts compared: /runs/{run.slug}/trajectories")
