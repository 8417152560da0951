"""`python -m trainer branch`: play on from positions of recorded attempts, with any weights."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.cli import branch_report, serve_sampler
from trainer.journal.branches import (
    MAX_SAMPLES,
    Answer,
    Branches,
    Change,
    CompareThoughts,
    CorrectMisreadings,
    EvaluationQuestion,
    FindValue,
    Played,
    PlayOn,
    Question,
    Result,
    SurveyThoughts,
)
from trainer.journal.events import Event
from trainer.journal.protocol import BAD_CONFIGURATION, COMPLETED, FAILED

if TYPE_CHECKING:
    from trainer.branching.player import Weights

SAMPLES = 8


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments to the command."""
    command.add_argument("folder", type=Path, help="folder of the run")
    command.add_argument("--trajectory", metavar="ID", help="id of the attempt in the journal, as in 00001-g00-n00")
    asked = command.add_mutually_exclusive_group(required=True)
    asked.add_argument("--turn", type=int, metavar="T", help="play on before the response of this turn, from 1")
    asked.add_argument("--value", type=int, metavar="N", help="N continuations from every turn: the share solved")
    asked.add_argument("--thoughts", type=int, metavar="N", help="N next actions of every turn, after other thoughts")
    asked.add_argument(
        "--corrections",
        type=int,
        metavar="N",
        help="N continuations of every lost attempt of an evaluation, its first false position put right, and without",
    )
    command.add_argument("--evaluation", action="store_true", help="--thoughts: of the attempts of an evaluation")
    command.add_argument("--iteration", type=int, metavar="K", help="of the evaluation (default: the newest)")
    command.add_argument("--suite", metavar="NAME", help="suite of the evaluation (default: the run's own environment)")
    command.add_argument("--attempts", type=int, metavar="N", help="most attempts of the evaluation (default: 100)")
    chosen = serve_sampler.weights(command, "those that played it, or the nearest kept ones")
    chosen.add_argument("--from", dest="other", metavar="FOLDER[:K]", help="weights of another run")
    command.add_argument(
        "--servers",
        action="store_true",
        help="give the weights to the vLLM servers of their run, which sample; no run may train with them meanwhile",
    )
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
    about: dict[str, Any] = {"id": "branch", "folder": str(arguments.folder), "temperature": arguments.temperature}
    if arguments.turn is None and (arguments.fresh_luck or _change(arguments)):
        raise ValueError("changes and --fresh-luck apply to one position: name it with --turn")
    if arguments.corrections is not None or arguments.evaluation:
        return _evaluation_question(arguments, about)
    if any(value is not None for value in (arguments.iteration, arguments.suite, arguments.attempts)):
        raise ValueError("--iteration, --suite and --attempts name an evaluation: ask --corrections or --evaluation")
    if not arguments.trajectory:
        raise ValueError("name the attempt with --trajectory")
    about["trajectory"] = arguments.trajectory
    if arguments.value is not None:
        return FindValue(**about, samples=_checked(arguments.value))
    if arguments.thoughts is not None:
        return CompareThoughts(**about, samples=_checked(arguments.thoughts))
    if arguments.turn < 1:
        raise ValueError(f"--turn counts from 1, not {arguments.turn}")
    luck = "fresh" if arguments.fresh_luck else "recorded"
    samples, change = _checked(arguments.samples), Change(**_change(arguments))
    return PlayOn(**about, turn=arguments.turn - 1, samples=samples, change=change, luck=luck)


def _change(arguments: argparse.Namespace) -> dict[str, str]:
    texts = {name: getattr(arguments, name) for name in ("thought", "answer", "state")}
    return {name: text for name, text in texts.items() if text is not None}


def _evaluation_question(arguments: argparse.Namespace, about: dict[str, Any]) -> EvaluationQuestion:
    if arguments.trajectory:
        raise ValueError("this question is about an evaluation: leave --trajectory out")
    about |= {"iteration": arguments.iteration, "suite": arguments.suite}
    if arguments.attempts is not None:
        about["attempts"] = arguments.attempts
    if arguments.corrections is not None:
        return CorrectMisreadings(**about, samples=_checked(arguments.corrections))
    if arguments.thoughts is None:
        raise ValueError("--evaluation goes with --thoughts")
    return SurveyThoughts(**about, samples=_checked(arguments.thoughts))


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
    from trainer.branching.asking import Asker
    from trainer.branching.policies import load_player
    from trainer.branching.questions import answer

    chosen = _weights(arguments)
    player = load_player(chosen, device=arguments.device, threads=arguments.threads, servers=arguments.servers)
    played: list[Played] = []

    def take(message: Answer) -> None:
        if isinstance(message, Played):
            played.append(message)
        elif message.type == "restored":
            ids = "the recorded token ids" if message.tokens == "recorded" else "the token ids of the recorded text"
            print(f"{player.description}; {ids}", file=sys.stderr)

    try:
        result = answer(asked, player, Asker(take))
    finally:
        player.close()
    print("\n".join(branch_report.report(result, [message.event for message in played])))
    if arguments.json:
        _write(arguments.json, result, played)
    return COMPLETED


def _weights(arguments: argparse.Namespace) -> Weights:
    """Return the chosen weights. Raises RecordingError."""
    from trainer.branching.player import Weights
    from trainer.loops.recorded_attempts import choose_checkpoint, find_attempt
    from trainer.loops.recorded_evaluations import find_evaluation

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
    if arguments.trajectory:
        attempt = find_attempt(folder, arguments.trajectory)
    else:
        attempt = find_evaluation(folder, arguments.iteration, arguments.suite).attempts[0]
    return Weights(folder, choose_checkpoint(folder, attempt.sampled_after))


def _write(path: Path, result: Result, played: Sequence[Played]) -> None:
    if not isinstance(result, Branches):
        path.write_text(result.model_dump_json(exclude={"id"}) + "\n", encoding="utf-8")
        return
    events: list[Event] = [message.event for message in played]
    with path.open("w", encoding="utf-8") as file:
        for number, event in enumerate(events, start=1):
            file.write(event.model_copy(update={"seq": number}).model_dump_json() + "\n")
