"""Sentences about tokens that were not recorded, but computed from a checkpoint: what they are, and are not."""

from __future__ import annotations

from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory
from webapp.trajectories.reading import Computed
from webapp.trajectories.token_computation import sampled_after

_NAMED = 3  # turns
UNKNOWN = (
    "Not known: the sampler's log-probabilities of single tokens, advantages, importance ratios, which tokens were "
    "clipped, and which become different ones when the text is tokenised again."
)


def describe_computed(trajectory: Trajectory, computed: Computed) -> list[str]:
    """Return sentences on the weights, on the ids, and on what is not known."""
    return [_weights(trajectory, computed.checkpoint), _ids(computed), UNKNOWN]


def weights_name(run: Run, iteration: int) -> str:
    """Return the name of the weights of a run after an iteration, e.g. “the checkpoint of iteration 8”."""
    if run.is_hosted:
        return f"the hosted model {run.config['hosted'].get('model', '')}"
    if iteration:
        return f"the checkpoint of iteration {iteration}"
    return "the evaluated policy" if run.config.get("kind") == "evaluate" else "the initial policy"


def _weights(trajectory: Trajectory, checkpoint: int) -> str:
    wanted = sampled_after(trajectory)
    first = f"These tokens were not recorded: they were computed from {weights_name(trajectory.run, checkpoint)}"
    if checkpoint != wanted:
        return (
            f"{first}. These are not exactly the weights that sampled the attempt, which had finished "
            f"{wanted or 'no'} iteration{'' if wanted == 1 else 's'} and were not kept: its log-probabilities and "
            "entropies were others."
        )
    ahead = (trajectory.run.config.get("rollout") or {}).get("max_staleness") or 0
    if ahead and trajectory.split == "train":
        return (
            f"{first}, the newest that can have sampled the attempt: this run plays its rollouts ahead "
            f"(rollout.max_staleness {ahead}), so that the weights may have been up to {ahead} updates older."
        )
    return f"{first}, which sampled the attempt."


def _ids(computed: Computed) -> str:
    sentence = (
        "The ids of the responses come from tokenising their recorded text: the policy may have sampled other ids for "
        "the same text."
    )
    if not computed.differing:
        return sentence
    cases = [
        f"{sampled} tokens in turn {turn + 1}, whose text has {found}"
        for turn, sampled, found in computed.differing[:_NAMED]
    ]
    more = " and others" if len(computed.differing) > _NAMED else ""
    return f"{sentence} It certainly has: it sampled {', '.join(cases)}{more}."
