"""The pocket preset at its full size on Ray actors, against one process: turns, gradients and weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file

from bench.scale.random_kills import DriverProcess, effective_turns, faults_of, iteration_of
from trainer.config.files import load_preset, with_overrides
from trainer.journal import reader
from trainer.journal.events import Metrics
from trainer.journal.protocol import JOURNAL_FILE

PRESET = "sokoban-starpo_s-pocket"
RUN = (
    *("policy.threads=1", "policy.device=cpu", "checkpoint.every=1", "checkpoint.keep=1000"),
    "rollout.groups_per_session=4",  # else the last bits depend on the number of actors
)
TOLERANCE = 1e-5
"""Of the first iteration's gradient norm, relative: several learners sum in another order. Later ones add to it."""


@dataclass(frozen=True)
class Difference:
    """How a run on several learners differs from that of one process.

    Attributes:
        turns: number of turns of both.
        same_until: iterations before the first turn that differs, at most all.
        gradients: relative differences of the gradient norms, from the first iteration to the last with the same turns.
        weights: largest absolute difference of the weights after the first iteration.
    """

    turns: int
    same_until: int
    gradients: list[float]
    weights: float


def gradient_norms(folder: Path) -> dict[int, float]:
    """Of the policy, by iteration."""
    return {
        event.iteration: event.values["policy/grad_norm"]
        for event in reader.read(folder / JOURNAL_FILE)
        if isinstance(event, Metrics) and "policy/grad_norm" in event.values
    }


def difference(folder: Path, alone: Path, iterations: int) -> Difference:
    """Compare two runs of the same settings."""
    turns, expected = effective_turns(folder)[0], effective_turns(alone)[0]
    differing = [iteration_of(key[0]) for key in turns.keys() | expected.keys() if turns.get(key) != expected.get(key)]
    same_until = min(differing) - 1 if differing else iterations
    norms, others = gradient_norms(folder), gradient_norms(alone)
    gradients = [abs(norms[number] / others[number] - 1) for number in sorted(others) if number <= same_until]
    return Difference(len(expected), same_until, gradients, max(_weight_differences(folder, alone)))


def _weight_differences(folder: Path, alone: Path) -> Iterator[float]:
    one, other = (load_file(each / "checkpoints/000001/model.safetensors") for each in (folder, alone))
    for name, value in one.items():
        yield float((value.float() - other[name].float()).abs().max())


def _finished(folder: Path, settings: Sequence[str]) -> Path:
    driver = DriverProcess(with_overrides(load_preset(PRESET), [*RUN, *settings]), folder)
    if driver.wait():
        raise RuntimeError(f"the run ended with status {driver.code()}: see driver.log in {folder}")
    return folder


def measure(folder: Path, iterations: int, settings: Sequence[str] = ()) -> tuple[list[str], Difference]:
    """Run the preset in one process, with three rollout actors and one learner, and with two of each.

    Args:
        folder: for the runs; must not contain any yet.
    Returns:
        what differs bit for bit with one learner, in words, and how the run on two learners differs.
    Raises:
        RuntimeError: a run ends with an error.
    """
    common = [f"iterations={iterations}", *settings]
    alone = _finished(folder / "one-process", common)
    one = _finished(folder / "one-learner", [*common, "cluster.learners=1", "cluster.rollout_actors=3"])
    two = _finished(folder / "two-learners", [*common, "cluster.learners=2", "cluster.rollout_actors=2"])
    return faults_of(one, alone), difference(two, alone, iterations)


def faults_in(found: Difference) -> list[str]:
    """What is not equal up to the order of sums, in words."""
    faults = []
    if found.same_until < 1:
        faults.append("two learners: turns differ before the first update")
    elif not found.gradients or found.gradients[0] > TOLERANCE:
        faults.append(f"two learners: the first gradients differ by more than {TOLERANCE:g}")
    return faults


def report(faults: Sequence[str], found: Difference, iterations: int) -> str:
    """Both comparisons in sentences."""
    same = "of all iterations" if found.same_until == iterations else f"up to iteration {found.same_until}"
    gradients = ", ".join(f"{each:.1e}" for each in found.gradients)
    return "\n".join(
        [
            f"{iterations} iterations of {PRESET}, {found.turns} turns in one process",
            f"1 learner, 3 rollout actors: {'; '.join(faults) or 'the same turns and weights, bit for bit'}",
            f"2 learners, 2 rollout actors: the same turns {same}; gradient norms differ by {gradients}, "
            f"weights after the first iteration by {found.weights:.1e}",
        ]
    )
