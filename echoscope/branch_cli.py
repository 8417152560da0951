"""`python -m echoscope branch`: play on from a position of a trajectory, by a worker of the site."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from echoscope import models
from echoscope.errors import EchoscopeError
from echoscope.output import print_answer, print_note

if TYPE_CHECKING:
    from echoscope.client import Client

SAMPLES = 8
_SHOWN = 200  # characters of a thought


def add_branch_options(asking: argparse.ArgumentParser) -> None:
    """Add the options of `branch` to its parser."""
    asking.add_argument("trajectory")
    asked = asking.add_mutually_exclusive_group(required=True)
    asked.add_argument("--turn", type=int, metavar="T", help="Play on before the response of this turn, from 1.")
    asked.add_argument("--value", type=int, metavar="N", help="N continuations from every turn: the share solved.")
    asked.add_argument("--thoughts", type=int, metavar="N", help="N next actions of every turn, after other thoughts.")
    asking.add_argument(
        "--checkpoint",
        type=int,
        metavar="K",
        help="Weights after K iterations, or the nearest kept; 0: before any training; default: those that played it.",
    )
    asking.add_argument("--run", metavar="RUN", help="Weights of another run; default: its newest.")
    asking.add_argument("--samples", type=int, default=SAMPLES, metavar="N", help=f"Branches (default {SAMPLES}).")
    asking.add_argument("--temperature", type=float, help="0 is greedy (default: as it was sampled).")
    asking.add_argument("--fresh-luck", action="store_true", help="Other randomness of the environment in each branch.")
    change = asking.add_mutually_exclusive_group()
    change.add_argument(
        "--thought", metavar="TEXT", help="Another thought at the turn; the answer is sampled after it."
    )
    change.add_argument("--answer", metavar="TEXT", help="Another answer at the turn; played on from the next one.")
    change.add_argument("--state", metavar="TEXT", help="Another message that the agent reads at the turn.")


def branch(client: Client, args: argparse.Namespace) -> None:
    """Ask the question, wait for its answer and print it."""
    asked = client.questions.ask(args.trajectory, **_asked(args))
    previous = ""
    for question in client.questions.watch(asked.slug):
        if question.message != previous:
            print_note(question.message)
            previous = question.message
    if question.state == "failed":
        raise EchoscopeError(question.message)
    print_answer(args, question, "\n".join(_report(question)))


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """Return the question of these arguments. Raises EchoscopeError."""
    change = {name: text for name in ("thought", "answer", "state") if (text := getattr(args, name)) is not None}
    asked = {"temperature": args.temperature, "weights_run": args.run, "checkpoint": args.checkpoint}
    if args.turn is None:
        if args.fresh_luck or change:
            raise EchoscopeError("Changes and --fresh-luck apply to one position: name it with --turn.")
        kind, samples = ("value", args.value) if args.thoughts is None else ("thoughts", args.thoughts)
        return {**asked, "kind": kind, "samples": samples}
    if args.turn < 1:
        raise EchoscopeError(f"--turn counts from 1, not {args.turn}.")
    return {**asked, "turn": args.turn - 1, "samples": args.samples, "change": change, "fresh_luck": args.fresh_luck}


def _report(question: models.QuestionDetail) -> Iterator[str]:
    """Yield the lines of the answer for people."""
    match question.result:
        case models.Branches() as result:
            for played in question.branches:
                yield from _branch(played)
            failed = f", {result.failed} more failed" if result.failed else ""
            yield f"{_share(result.solved)}{failed}"
        case models.Values() as result:
            yield from _values(result)
        case models.Influences() as result:
            yield from _influences(result)
    yield question.url


def _branch(played: models.Branch) -> Iterator[str]:
    """Yield the end of a branch, its page and its new turns."""
    reason = f" ({played.error})" if played.error else ""
    outcome = "solved" if played.status == "success" else f"not solved: {played.end}{reason}"
    reward = "" if played.total_reward is None else f", reward {played.total_reward:.4g}"
    yield f"branch {played.number + 1}: {outcome}{reward}  {played.url}"
    for turn in played.new_turns:
        thought = " ".join(turn.thought.split())
        shown = f"{thought[:_SHOWN]}…" if len(thought) > _SHOWN else thought
        actions = " || ".join(turn.actions) or turn.problem or "no action"
        yield f"  turn {turn.turn + 1}: {actions}{f'  – {shown}' if shown else ''}"


def _values(result: models.Values) -> Iterator[str]:
    yield f"{'turn':>4}  {'solved':<32} lost"
    for value in result.turns:
        yield f"{value.turn + 1:>4}  {_share(value.solved):<32} {value.fall:+.2f}"
    lost = f"turn {result.decisive + 1}" if result.decisive is not None else "none"
    yield f"the turn of the steepest fall: {lost}"


def _influences(result: models.Influences) -> Iterator[str]:
    yield f"{'turn':>4} {'no thought':>10} {'another':>8} {'false':>6}  actions after its own thought"
    for turn in result.turns:
        none, other, false = (_number(turn.distances.get(thought)) for thought in ("none", "other", "false"))
        own = max(turn.actions.get("own", {}).items(), key=lambda item: item[1], default=("", 0))
        yield f"{turn.turn + 1:>4} {none:>10} {other:>8} {false:>6}  {own[0]} ({own[1]})"
    yield (
        f"influence of the thought {_number(result.influence)}, "
        f"of false claims {_number(result.follows_false_claims)} (0: none, 1: it decides)"
    )


def _share(share: models.SolvedShare) -> str:
    return f"{share.solved} of {share.samples} solved ({share.share:.0%}, {share.low:.0%}–{share.high:.0%})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
