"""Answers to questions about attempts and evaluations as text: tables, and the result in the last line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainer.journal.branches import (
    Branches,
    CorrectedAttempt,
    Corrections,
    Influences,
    Interval,
    Result,
    Share,
    Survey,
    Values,
)
from trainer.journal.events import Event, TrajectoryFinished, Turn

_SHOWN = 200  # characters of a thought


def report(result: Result, events: Sequence[Event]) -> Iterator[str]:
    """Yield the lines of the answer for people."""
    match result:
        case Branches():
            yield from _branches(events)
            failed = f", {result.failed} more failed" if result.failed else ""
            yield f"{_share(result.solved)}{failed}"
        case Values():
            yield f"{'turn':>4}  {'solved':<32} lost"
            for value in result.turns:
                yield f"{value.turn + 1:>4}  {_share(value.solved):<32} {value.fall:+.2f}"
            lost = f"turn {result.decisive + 1}" if result.decisive is not None else "none"
            yield f"the turn of the steepest fall: {lost}"
        case Influences():
            yield f"{'turn':>4} {'no thought':>10} {'another':>8} {'false':>6}  actions after its own thought"
            for turn in result.turns:
                distances = [turn.distances.get(thought) for thought in ("none", "other", "false")]
                own = max(turn.actions["own"].items(), key=lambda item: item[1]) if "own" in turn.actions else ("", 0)
                texts = [_number(distance) for distance in distances]
                yield f"{turn.turn + 1:>4} {texts[0]:>10} {texts[1]:>8} {texts[2]:>6}  {own[0]} ({own[1]})"
            yield (
                f"influence of the thought {_number(result.influence)}, "
                f"of false claims {_number(result.follows_false_claims)} (0: none, 1: it decides)"
            )
        case Corrections():
            yield from _corrections(result)
        case Survey():
            yield from _survey(result)


def _branches(events: Sequence[Event]) -> Iterator[str]:
    """Yield the turns of each branch below its end."""
    turns: dict[str, list[Turn]] = {}
    for event in events:
        if isinstance(event, Turn):
            turns.setdefault(event.trajectory, []).append(event)
    ends = [event for event in events if isinstance(event, TrajectoryFinished)]
    for end in sorted(ends, key=lambda event: event.trajectory):
        reason = f" ({end.error})" if end.error else ""
        outcome = "solved" if end.success else f"not solved: {end.end}{reason}"
        yield f"{end.trajectory}: {outcome}, reward {end.total_reward:.4g}"
        for turn in turns.get(end.trajectory, []):
            actions = " || ".join(action.name or action.text for action in turn.actions) or turn.problem
            thought = " ".join(turn.thought.split())
            shown = f"{thought[:_SHOWN]}…" if len(thought) > _SHOWN else thought
            yield f"  turn {turn.turn + 1}: {actions}{f'  – {shown}' if shown else ''}"


def _corrections(result: Corrections) -> Iterator[str]:
    """Yield a line for each attempt, what was played, and the shares with their difference."""
    if result.rows:
        yield f"{'attempt':<20} {'turn':>4} {'solved':>8} {'without':>8}  misread"
    for row in result.rows:
        yield _corrected(row)
    yield (
        f"{result.attempts} attempts in {result.suite} after iteration {result.iteration}: {result.lost} lost, "
        f"{result.correctable} of them with a false position that can be put right, {len(result.rows)} played on"
    )
    if result.difference is not None:
        yield f"{'corrected:':<12} {_share(result.solved)}"
        yield f"{'without:':<12} {_share(result.solved_without)}"
        low, high = result.difference.low, result.difference.high
        yield f"{'difference:':<12} {result.difference.value:+.0%} (95% interval {low:+.0%} to {high:+.0%})"


def _corrected(row: CorrectedAttempt) -> str:
    solved, without = f"{row.solved} of {row.samples}", f"{row.solved_without} of {row.samples_without}"
    misread = ", ".join(f"{claim} → {right}" for claim, right in zip(row.claims, row.corrections, strict=True))
    return f"{row.trajectory:<20} {row.turn + 1:>4} {solved:>8} {without:>8}  {misread}"


def _survey(result: Survey) -> Iterator[str]:
    """Yield a line for each attempt, and the means over attempts."""
    yield f"{'attempt':<20} {'turns':>5} {'influence':>9} {'false':>6}"
    for row in result.rows:
        numbers = f"{_number(row.influence):>9} {_number(row.follows_false_claims):>6}"
        yield f"{row.trajectory:<20} {row.turns:>5} {numbers}"
    yield (
        f"{len(result.rows)} of {result.attempts} attempts in {result.suite} after iteration {result.iteration}: "
        f"influence of the thought {_interval(result.influence)}, "
        f"of false claims {_interval(result.follows_false_claims)} (0: none, 1: it decides)"
    )


def _share(share: Share) -> str:
    return f"{share.solved} of {share.samples} solved ({share.share:.0%}, {share.low:.0%}–{share.high:.0%})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _interval(interval: Interval | None) -> str:
    return "–" if interval is None else f"{interval.value:.2f} ({interval.low:.2f}–{interval.high:.2f})"
