"""Form of questions to policies about an attempt: its values, and the question that was posted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from trainer.journal.branches import MAX_SAMPLES
from trainer.journal.computed_tokens import nearest_checkpoint
from webapp.branching.asked import MAX_CHANGE, Asked, AskedWrongly, first_problem
from webapp.branching.defaults import PlayedBy, played_by
from webapp.branching.models import BranchQuestion
from webapp.branching.policies import hosted_model
from webapp.runs.models import Run
from webapp.teams.models import User
from webapp.trajectories.branch_origin import BranchOrigin, branch_origin
from webapp.trajectories.computed_text import weights_name
from webapp.trajectories.models import Trajectory
from webapp.trajectories.token_computation import sampled_after

Kind = BranchQuestion.Kind
DEFAULTS = {"kind": Kind.BRANCH.value, "turn": "1", "samples": "8", "samples_of_turns": "16", "change": "none"}
MESSAGES = {
    "turn": "Choose a turn of the attempt, such as 1.",
    "samples": f"Enter a whole number from 1 to {MAX_SAMPLES}.",
    "temperature": "Enter a number from 0 to 10, such as 0.7, or leave it empty.",
    "checkpoint": "These weights are not kept: choose others.",
    "run": "Your teams have no such run: enter its link or the end of its link.",
}
CHANGES = (("none", "nothing"), ("thought", "its thought"), ("answer", "its answer"), ("state", "what it reads"))
MAX_TYPED = 200
"""Characters of a number or link that is shown again."""
_SLUG = re.compile(r"[A-Za-z0-9]{12}")


@dataclass(frozen=True)
class AskForm:
    """The form, with what was typed, and what is wrong with it.

    Attributes:
        temperature: what an empty field stands for.
        origin: of a branch: before its turn the form asks about the attempt that the branch continues.
        host: of the hosted model that plays on; empty for weights.
    """

    values: Mapping[str, str]
    weights: Sequence[tuple[str, str]]
    turns: int
    temperature: str
    origin: BranchOrigin | None
    problem: AskedWrongly | None = None
    refused: str = ""
    host: str = ""
    changes: Sequence[tuple[str, str]] = CHANGES
    max_samples: int = MAX_SAMPLES
    max_change: int = MAX_CHANGE

    @property
    def errors(self) -> dict[str, str]:
        """Message by field of the form. The field of samples depends on the kind of question."""
        if self.problem is None:
            return {}
        field = self.problem.field
        if field == "samples" and self.values.get("kind") != Kind.BRANCH:
            field = "samples_of_turns"
        return {field if field in {*DEFAULTS, "temperature", "checkpoint", "run"} else "kind": str(self.problem)}

    @property
    def open(self) -> bool:
        return bool(self.problem or self.refused)


def ask_form(
    trajectory: Trajectory, typed: Mapping[str, str], problem: AskedWrongly | None = None, refused: str = ""
) -> AskForm:
    """Return the form. One query, and a few for a branch."""
    values = {**DEFAULTS, **{name: text[: MAX_CHANGE if name == "text" else MAX_TYPED] for name, text in typed.items()}}
    played, origin = played_by(trajectory, trajectory), branch_origin(trajectory)
    weights = _weights(trajectory, _kept(trajectory), played, origin)
    temperature = "as recorded" if played.temperature is None else f"{played.temperature:g}"
    hosted = hosted_model(trajectory.run)
    host = "" if hosted is None else hosted.host
    return AskForm(values, weights, trajectory.turn_count, temperature, origin, problem, refused, host)


def read_asked(posted: Mapping[str, str], trajectory: Trajectory) -> Asked:
    """Return the posted question. Raises AskedWrongly. At most one query."""
    branch = posted.get("kind", Kind.BRANCH) == Kind.BRANCH
    values: dict[str, Any] = {"kind": posted.get("kind", "branch")}
    fields = {"temperature": "temperature", "checkpoint": "checkpoint"}
    fields["samples"] = "samples" if branch else "samples_of_turns"
    values |= {name: text for name, field in fields.items() if (text := posted.get(field, "").strip())}
    if branch:
        values |= {"turn": _turn(posted.get("turn", "")), "fresh_luck": posted.get("fresh_luck") == "on"}
        values["change"] = _change(posted)
    try:
        asked = Asked.model_validate(values)
    except ValidationError as error:
        problem = first_problem(error)
        raise AskedWrongly(problem.field, MESSAGES.get(problem.field, str(problem))) from None
    if asked.checkpoint and not posted.get("run", "").strip() and asked.checkpoint not in _kept(trajectory):
        raise AskedWrongly("checkpoint", MESSAGES["checkpoint"])
    return asked


def read_run(posted: Mapping[str, str], user: User) -> Run | None:
    """Return the other run whose weights shall play; None: the attempt's own. Raises AskedWrongly. One query."""
    text = posted.get("run", "").strip()
    if not text:
        return None
    slugs = _SLUG.findall(text.partition("?")[0])
    run = Run.objects.listed_for(user).filter(slug__in=slugs[-1:]).first()
    if run is None:
        raise AskedWrongly("run", MESSAGES["run"])
    return run


def asked_before(question: BranchQuestion) -> Asked:
    """Return what a question asked, to ask it again. Raises ValidationError if its values became invalid."""
    return Asked(
        kind=Kind(question.kind),
        turn=question.turn,
        samples=question.samples,
        temperature=question.temperature,
        change=question.changed,
        fresh_luck=question.luck == "fresh",
        checkpoint=question.checkpoint,
    )


def _turn(text: str) -> int:
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > 5 or int(text) < 1:
        raise AskedWrongly("turn", MESSAGES["turn"])
    return int(text) - 1


def _change(posted: Mapping[str, str]) -> dict[str, str]:
    name = posted.get("change", "none")
    if name not in {"thought", "answer", "state"}:
        return {}
    text = posted.get("text", "").replace("\r\n", "\n")
    return {name: text}


def _kept(trajectory: Trajectory) -> list[int]:
    return list(trajectory.run.checkpoints.order_by("-iteration").values_list("iteration", flat=True))


def _weights(
    trajectory: Trajectory, kept: Sequence[int], played: PlayedBy, origin: BranchOrigin | None
) -> list[tuple[str, str]]:
    """Return the weights that can play on: values and names."""
    if origin is not None and played.weights_run is not None:
        own = origin.weights
    else:
        own = _nearest(trajectory, kept, sampled_after(trajectory) if played.checkpoint is None else played.checkpoint)
    if hosted_model(trajectory.run) is not None:
        return [("", weights_name(trajectory.run, 0))]
    named = [(str(number), weights_name(trajectory.run, number)) for number in [*kept, 0]]
    return [("", f"those that played it ({own})"), *named]


def _nearest(trajectory: Trajectory, kept: Sequence[int], wanted: int) -> str:
    """Return the name of the weights that are used for the wanted ones."""
    nearest = nearest_checkpoint(kept, wanted)
    expected = wanted if not wanted or nearest is None else nearest
    return weights_name(trajectory.run, expected) + ("" if expected == wanted else ", the nearest that is kept")
