"""Recorded training runs, which open as runs of a team without a worker or a download.

Each journal in `recordings/` is one that `python -m trainer train` wrote for a real language model, with a title and
tags; claims and alarms were judged again by the present reader and watch. Those in `recordings/broken/` are runs of the
pocket policy with a planted fault (tests/trainer/loops/test_planted_faults.py).
"""

from __future__ import annotations

import gzip
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from django.db import IntegrityError, connection, transaction

from trainer.journal.events import RunStarted
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.reader import read_lines
from webapp.ingest.imports import do_create_imported_run, do_settle_end
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run
from webapp.teams.models import Team, User

logger = logging.getLogger(__name__)

FOLDER = Path(__file__).with_name("recordings")


@dataclass(frozen=True)
class Recording:
    """A recorded run. `name` is the name of its file, and `about` describes the run in a sentence or two."""

    name: str
    title: str
    about: str
    broken: bool = False

    @property
    def path(self) -> Path:
        """The compressed journal."""
        return (FOLDER / "broken" if self.broken else FOLDER) / f"{self.name}.jsonl.gz"

    @property
    def launch_key(self) -> str:
        """Launch key of the run, so that a person who opens the recording again gets the same run."""
        return f"recorded-{self.name}"


RECORDINGS = (
    Recording(
        "bandit-smollm2",
        "SmolLM2 learns a bandit",
        "135 million parameters on one core for four minutes: success of 0% untrained, 22% after 16 steps of "
        "imitation, 100% after 12 iterations of StarPO-S.",
    ),
    Recording(
        "countdown-smollm2",
        "SmolLM2 learns Countdown",
        "Success of 0% untrained, 31% after imitation, as in random play, and 75% after 40 iterations of StarPO-S. "
        "It finds the operation that fits; the results in its thoughts stay as false as they were.",
    ),
    Recording(
        "countdown_trap-smollm2",
        "SmolLM2 in the Echo Trap",
        "The same with another seed: 0% untrained, 38% after imitation, 33% in the end. From iteration 10 on it adds "
        "whatever the target is, and from 20 on all attempts at a puzzle agree. The watch speaks at 22, and says "
        "“trapped” at 28.",
    ),
    Recording(
        "frozen_lake-smollm2",
        "SmolLM2 breaks on FrozenLake",
        "Imitation takes the same model from 3 to 53% of the lakes. Then a learning rate that is too high takes its "
        "thoughts apart, and its answers follow, down to 36%. The watch speaks at iteration 19.",
    ),
)

BROKEN = (
    Recording(
        "hanging_environment",
        "A bandit whose environments hang",
        "From iteration 6 on a third of the environments do not answer. No curve of success or reward shows it, "
        "because these attempts are left out.",
        broken=True,
    ),
    Recording(
        "other_sampler",
        "A sampler that plays another policy",
        "From iteration 6 on the sampler has another temperature than the trainer believes. Success and reward do not "
        "show it.",
        broken=True,
    ),
    Recording(
        "equal_rewards",
        "Rewards that say nothing",
        "From iteration 6 on every attempt gets the same reward. The run goes on and learns nothing.",
        broken=True,
    ),
)
"""Runs with a planted fault, for docs/not-learning.md."""


def do_open_recording(team: Team, author: User, recording: Recording) -> Run:
    """Create the run of a recording in a team, once for each author, and fill it in the background.

    If the process ends meanwhile, opening the recording again completes the run, which counts as stopped after a while.
    """
    run = Run.objects.filter(author=author, launch_key=recording.launch_key).first()
    if run is None:
        try:
            run = do_create_imported_run(team, author, _start(recording), growing=True, launch_key=recording.launch_key)
        except IntegrityError:  # a second click was faster
            run = Run.objects.get(author=author, launch_key=recording.launch_key)
    if not run.end_reason:
        thread = Thread(target=_fill, args=(run, recording), name=f"import of {recording.name}", daemon=True)
        transaction.on_commit(thread.start)
    return run


def _start(recording: Recording) -> RunStarted:
    with gzip.open(recording.path) as lines:
        return next(event for event in read_lines(lines) if isinstance(event, RunStarted))


def _fill(run: Run, recording: Recording) -> None:
    """Read the recording into the tables from where an earlier import ended."""
    try:
        with TemporaryDirectory() as name:
            folder = Path(name)
            with gzip.open(recording.path) as packed, (folder / JOURNAL_FILE).open("wb") as file:
                shutil.copyfileobj(packed, file)
            JournalTailer(run, folder).drain()
    except Exception:
        logger.exception("The recording %s could not be imported as run %s", recording.name, run.slug)
    finally:
        try:
            do_settle_end(run)
        finally:
            connection.close()
