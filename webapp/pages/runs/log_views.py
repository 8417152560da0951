"""Log tab of a run: the trainer's actions and its output, both live; download of the whole log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from trainer.journal.protocol import LOG_FILE
from webapp.core.streaming import release_connection, streamed
from webapp.pages.run_page import run_page
from webapp.runs.access import get_run_of_team
from webapp.runs.models import Alarm, LogLine, Run
from webapp.runs.run_files import BLOCK, open_file

MAX_LINES = 500
MAX_OUTPUT_BYTES = 64 * 1024
MAX_DIGITS = 15


@dataclass(frozen=True)
class Output:
    """A part of the trainer's output. `skipped`: earlier bytes were left out."""

    text: str
    offset: int
    skipped: bool


@login_required
@require_GET
@never_cache
def run_log(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the newest lines, and the end of the trainer's output."""
    run = get_run_of_team(request.user, slug)
    lines, output = newest_lines(run), read_output(run, None)
    context: dict[str, Any] = {"lines": lines, "output": output, "last": lines[-1].seq if lines else 0}
    context |= _before_lines(run, lines)
    return run_page(request, run, "run-log", "runs/log.html", **context)


@login_required
@require_GET
@never_cache
def run_log_data(request: HttpRequest, slug: str) -> JsonResponse:
    """Return lines after `?after=` (seq of the last line), and output after `?offset=` (in bytes)."""
    run = get_run_of_team(request.user, slug)
    after, offset = _number(request, "after"), _number(request, "offset")
    lines = newest_lines(run, after or 0)
    output = read_output(run, offset)
    return JsonResponse(
        {
            "lines": [
                {"seq": line.seq, "level": line.level, "message": line.message, "time": line.time.isoformat()}
                for line in lines
            ],
            "output": {"text": output.text, "offset": output.offset, "skipped": output.skipped},
            "active": run.state in (Run.State.QUEUED, *Run.HELD),
        }
    )


@login_required
@require_GET
def run_log_text(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Send the whole log as text: all lines, then the trainer's whole output."""
    run = get_run_of_team(request.user, slug)
    return streamed(request, _whole(run), "text/plain; charset=utf-8", f"{run.slug}-log.txt", compressible=True)


def newest_lines(run: Run, after: int = 0) -> list[LogLine]:
    """Return the newest lines after an event, oldest first."""
    return list(run.log_lines.filter(seq__gt=after).order_by("-seq")[:MAX_LINES])[::-1]


def _before_lines(run: Run, lines: list[LogLine]) -> dict[str, Any]:
    """Return the newest alarms and notices from before the first stored line. A rebuild creates such lines."""
    first = lines[0].seq if lines else None
    if len(lines) == MAX_LINES:
        first = run.log_lines.order_by("seq").values_list("seq", flat=True)[0]
    conditions = {} if first is None else {"seq__lt": first}
    return {
        "alarms": list(Alarm.objects.filter(run=run, **conditions).order_by("-seq")[:20]),
        "notices": list(run.notices.filter(**conditions).order_by("-seq")[:50]),
    }


def read_output(run: Run, offset: int | None) -> Output:
    """Return the output after `offset` bytes, at most its last MAX_OUTPUT_BYTES, from the start of a line."""
    try:
        with open_file(run, LOG_FILE) as file:
            size = file.seek(0, os.SEEK_END)
            if offset == size:
                return Output("", size, False)
            start = max(offset if offset is not None and offset < size else 0, size - MAX_OUTPUT_BYTES)
            file.seek(start)
            data = file.read(size - start)
    except FileNotFoundError:
        return Output("" if offset else run.log_tail, offset or 0, False)
    skipped = start > 0 and start != offset
    if skipped:
        data = data.partition(b"\n")[2]
    return Output(data.decode(errors="replace"), size, skipped)


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None


def _whole(run: Run) -> Iterator[bytes]:
    for part in _parts(run):
        release_connection()
        yield part


def _parts(run: Run) -> Iterator[bytes]:
    yield f"{run.title} ({run.slug})\n\n".encode()
    last = 0
    while lines := list(run.log_lines.filter(seq__gt=last).order_by("seq")[:MAX_LINES]):
        yield "".join(f"{line.time:%Y-%m-%d %H:%M:%S} {line.level:<7} {line.message}\n" for line in lines).encode()
        last = lines[-1].seq
    yield b"\nConsole\n\n"
    try:
        with open_file(run, LOG_FILE) as file:
            left = file.seek(0, os.SEEK_END)
            file.seek(0)
            while left and (block := file.read(min(BLOCK, left))):  # the present end: a trainer may write faster
                left -= len(block)
                yield block
    except FileNotFoundError:
        yield (run.log_tail or "It is on the machine of the worker.\n").encode()
