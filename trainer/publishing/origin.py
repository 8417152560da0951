"""Origin of the trajectories in a data set: facts about the run for its card."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from trainer.publishing.run_facts import base_model, environment_labels, read_facts, started_elsewhere


@dataclass(frozen=True)
class Origin:
    """A run of our trainer or of another one.

    Attributes:
        title: title of the run.
        iterations: number of finished iterations; for another trainer's run, iterations with metrics or trajectories.
        environments: names of the environments, the run's main one first.
        policy: hub id, or name of the folder, of the initial policy; "" if another trainer did not record it.
    """

    title: str
    iterations: int
    environments: tuple[str, ...]
    policy: str


def read_origin(run: Path) -> Origin:
    """Read the journal of a run folder.

    Raises:
        ValueError: the folder has no journal, the run never started, or a line is not an event.
    """
    if started_elsewhere(run):
        return _of_another_trainer(run)
    facts = read_facts(run)
    policy = base_model(facts.config) or Path(facts.config.policy.model).name
    return Origin(facts.title, facts.iteration, environment_labels(facts.config), policy)


def _of_another_trainer(run: Path) -> Origin:
    """Read the origin of a run of another trainer, which has no settings in our format."""
    title, iterations, names = "", 0, dict[str, None]()
    for event in reader.read(run / JOURNAL_FILE):
        match event:
            case events.RunStarted():
                title = title or event.title
            case events.GroupStarted():
                iterations = max(iterations, event.iteration)
                names[event.environment] = None
            case events.Metrics():
                iterations = max(iterations, event.iteration)
    return Origin(title, iterations, tuple(names), "")
