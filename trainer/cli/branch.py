"""`python -m trainer branch`: play on from a position of a recorded attempt, with any weights."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.cli import serve_sampler
from trainer.journal.branches import (
    MAX_SAMPLES,
    Answer,
    Branches,
    Change,
    CompareThoughts,
    FindValue,
    Influences,
    Played,
    PlayOn,
    Question,
    Share,
    Values,
)
from trainer.journal.events import Event, TrajectoryFinished, Turn
from trainer.journal.protocol import BAD_CONFIGURATION, COMPLETED, FAILED

if TYPE_CHECKING:
    from trainer.branching.player import Weights

SAMPLES = 8
_SHOWN = 200  # characters of a thought


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments to the command."""
    command.add_argument("folder", type=Path, help="folder of the run")
    command.add_argument("--trajectory", required=True, metavar="ID", help="id in the journal, as in 00001-g00-n00")
    asked = command.add_mutually_exclusive_group(required=True)
    asked.add_argument("--turn", type=int, metavar="T", help="play on before the response of this turn, from 1")
    asked.add_argument("--value", type=int, metavar="N", help="N continuations from every turn: the share solved")
    asked.add_argument("--thoughts", type=int, metavar="N", help="N next actions of every turn, after other thoughts")
    chosen = serve_sampler.weights(command, "those that played it, or the nearest kept ones")
    chosen.add_argument("--from", dest="other", metavar="FOLDER[:K]", help="weights of another run")
    command.add_argument("--samples", type=int, default=SAMPLES, metavar="N", help=f"branches (default: {SAMPLES})")
    command.add_argument("--temperature", type=float, help="0 is greedy (default: as it was sampled)")
    command.add_argument("--fresh-luck", action="store_true", help="other randomness of the environment in each branch")
    change = command.add_mutually_exclusive_group()
    change.add_argument("--thought", metavar="TEXT", help="another thought at the turn; the answer is sampled after it")
    change.add_argument("--answer", metavar="TEXT", help="another answer at the turn; played on from the next one")
    change.add_argument("--state", metavar="TEXT", help="another message that the agent reads at the turn")
    command.add_argument("--json", type=Path, metavar="FILE", help="write events of the journal's formats, or values")


def question(arguments: argparse.Namespace) -> Question:
    """Return the question of these arguments. Raises ValueError."""
    change = {name: getattr(arguments, name) for name in ("thought", "answer", "state")}
    about: dict[str, Any] = {
        "id": "branch",
        "folder": str(arguments.folder),
        "trajectory": arguments.trajectory,
        "temperature": arguments.temperature,
    }
    if arguments.turn is None:
        if arguments.fresh_luck or any(text is not None for text in change.values()):
            raise ValueError("changes and --fresh-luck apply to one position: name it with --turn")
        samples = _checked(arguments.thoughts if arguments.value is None else arguments.value)
        kind = CompareThoughts if arguments.value is None else FindValue
        return kind(**about, samples=samples)
    if arguments.turn < 1:
        raise ValueError(f"--turn counts from 1, not {arguments.turn}")
    luck = "fresh" if arguments.fresh_luck else "recorded"
    samples = _checked(arguments.samples)
    return PlayOn(**about, turn=arguments.turn - 1, samples=samples, change=Change(**change), luck=luck)


def _checked(samples: int) -> int:
    if not 1 <= samples <= MAX_SAMPLES:
        raise ValueError(f"the number of samples is from 1 to {MAX_SAMPLES}, not {samples}")
    return samples


def ask(arguments: argparse.Namespace, asked: Question) -> int:
    """Answer the question on standard output, and in the file. Returns the exit code."""
    from transformers.utils import logging

    from trainer.engines.sampler import DivergedError

    logging.disable_progress_bar()
    try:
        return _ask(arguments, asked)
    except BrokenPipeError:
        raise  # of `| head`, see broken_pipe.py
    except (ValueError, OSError) as error:  # of recordings, positions, models, files: written for users
        print(f"error: {error}", file=sys.stderr)
        return BAD_CONFIGURATION
    except DivergedError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED


def _ask(arguments: argparse.Namespace, asked: Question) -> int:
    from trainer.branching.player import BranchPlayer
    from trainer.branching.questions import Asker, answer

    chosen = _weights(arguments)
    player = BranchPlayer.load(chosen, device=arguments.device, threads=arguments.threads)
    played: list[Played] = []

    def take(message: Answer) -> None:
        if isinstance(message, Played):
            played.append(message)
        elif message.type == "restored":
            ids = "the recorded token ids" if message.tokens == "recorded" else "the token ids of the recorded text"
            print(f"weights after {chosen.iteration} iterations of {chosen.folder}; {ids}", file=sys.stderr)

    try:
        result = answer(asked, player, Asker(take))
    finally:
        player.close()
    print("\n".join(_report(result, [message.event for message in played])))
    if arguments.json:
        _write(arguments.json, result, played)
    return COMPLETED


def _weights(arguments: argparse.Namespace) -> Weights:
    """Return the chosen weights. Raises RecordingError."""
    from trainer.branching.player import Weights
    from trainer.loops.recorded_attempts import choose_checkpoint, find_attempt

    folder: Path = arguments.folder
    if arguments.other:
        path, _, iteration = arguments.other.rpartition(":")
        if path and iteration.removeprefix("-").isdecimal():
            return Weights(Path(path), int(iteration))
        return Weights.newest(Path(arguments.other))
    if arguments.initial:
        return Weights(folder, 0)
    if arguments.checkpoint is not None:
        return Weights(folder, arguments.checkpoint)
    return Weights(folder, choose_checkpoint(folder, find_attempt(folder, arguments.trajectory).sampled_after))


def _write(path: Path, result: Branches | Values | Influences, played: Sequence[Played]) -> None:
    if not isinstance(result, Branches):
        path.write_text(result.model_dump_json(exclude={"id"}) + "\n", encoding="utf-8")
        return
    events: list[Event] = [message.event for message in played]
    with path.open("w", encoding="utf-8") as file:
        for number, event in enumerate(events, start=1):
            file.write(event.model_copy(update={"seq": number}).model_dump_json() + "\n")


def _report(result: Branches | Values | Influences, events: Sequence[Event]) -> Iterator[str]:
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


def _share(share: Share) -> str:
    return f"{share.solved} of {share.samples} solved ({share.share:.0%}, {share.low:.0%}–{share.high:.0%})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
