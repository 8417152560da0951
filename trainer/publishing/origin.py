"""Where the trajectories of a data set come from: what its card says of the run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from trainer.publishing.run_facts import base_model, environment_labels, read_facts, started_elsewhere


@dataclass(frozen=True)
class Origin:
    """A run of our own trainer or of another one.

    Attributes:
        title: of the run.
        iterations: finished ones; of another trainer's run, those with metrics or trajectories.
        environments: their names, the run's main one first.
        policy: the hub id, or the name of the folder, that training began with; "" where another trainer did not say.
    """

    title: str
    iterations: int
    environments: tuple[str, ...]
    policy: str


def read_origin(run: Path) -> Origin:
    """Read the journal of a run folder.

    Raises:
        ValueError: the folder has no journal, it never started, or a line is no event.
    """
    if started_elsewhere(run):
        return _of_another_trainer(run)
    facts = read_facts(run)
    policy = base_model(facts.config) or Path(facts.config.policy.model).name
    return Origin(facts.title, facts.iteration, environment_labels(facts.config), policy)


def _of_another_trainer(run: Path) -> Origin:
    """What such a run recorded: its settings have no form of ours."""
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
