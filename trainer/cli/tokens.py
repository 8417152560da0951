"""`python -m trainer tokens`: every token of a recorded attempt, with its probability under a checkpoint of the run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.journal.protocol import BAD_CONFIGURATION, COMPLETED, FAILED

if TYPE_CHECKING:
    from trainer.journal.computed_tokens import ComputedTokens

OUT_OF_MEMORY = "the memory of this machine ran out"
_NO_MEMORY = ("can't allocate memory", "not enough memory")  # of PyTorch on a CPU, which raises RuntimeError
_MAX_TEXT = 40  # characters of a token in the table


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments to the command."""
    command.add_argument("folder", type=Path, help="folder of the run")
    command.add_argument("--trajectory", required=True, metavar="ID", help="id in the journal, as in 00001-g00-n00")
    command.add_argument(
        "--checkpoint",
        type=int,
        metavar="N",
        help="iteration of the weights, 0 for the initial policy (default: the nearest to those that sampled it)",
    )
    command.add_argument("--device", choices=("auto", "cpu", "cuda"), default="", help="default: the run's")
    command.add_argument("--json", type=Path, metavar="FILE", help="write everything there, without the table")


def compute(arguments: argparse.Namespace) -> int:
    """Print the table, or write the file. Returns the exit code."""
    import torch
    from transformers.utils import logging

    from trainer.journal.reader import JournalError
    from trainer.loops.compute_tokens import compute_tokens
    from trainer.loops.recorded_attempts import RecordingError
    from trainer.policy.chat_format import TemplateError
    from trainer.policy.load import ModelError

    logging.disable_progress_bar()
    try:
        computed = compute_tokens(
            arguments.folder, arguments.trajectory, checkpoint=arguments.checkpoint, device=arguments.device
        )
    except (RecordingError, JournalError, ModelError, TemplateError) as error:
        return _failed(str(error), BAD_CONFIGURATION)
    except (MemoryError, torch.OutOfMemoryError):
        return _failed(OUT_OF_MEMORY, FAILED)
    except RuntimeError as error:
        if not any(words in str(error) for words in _NO_MEMORY):
            raise
        return _failed(OUT_OF_MEMORY, FAILED)
    try:
        if arguments.json:
            arguments.json.write_text(computed.model_dump_json(), encoding="utf-8")
        else:
            print("\n".join(_table(computed)))
    except BrokenPipeError:
        raise  # of `| head`, see broken_pipe.py
    except OSError as error:
        return _failed(str(error), FAILED)
    print(_summary(computed), file=sys.stderr)
    return COMPLETED


def _failed(message: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code


def _summary(computed: ComputedTokens) -> str:
    scored = sum(value is not None for value in computed.logprobs)
    weights = f"{len(computed.ids):,} tokens, {scored:,} of them scored by the weights after iteration"
    if computed.checkpoint == computed.sampled_after:
        return f"{weights} {computed.checkpoint}, which sampled the attempt"
    return f"{weights} {computed.checkpoint}; those after iteration {computed.sampled_after} sampled the attempt"


def _table(computed: ComputedTokens) -> Iterator[str]:
    """Yield the table's lines."""
    yield f"{'token':>6} {'turn':>4} {'kind':<11} {'loss':<4} {'id':>7} {'logprob':>9} {'entropy':>8} text"
    at = 0
    for segment in computed.segments:
        kind, loss = "sampled" if segment.sampled else segment.kind, "yes" if segment.in_loss else ""
        for place in range(at, at + segment.tokens):
            text = computed.texts[place]
            shown = json.dumps(text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…", ensure_ascii=False)
            scores = f"{_number(computed.logprobs[place]):>9} {_number(computed.entropies[place]):>8}"
            yield f"{place:>6} {segment.turn:>4} {kind:<11} {loss:<4} {computed.ids[place]:>7} {scores} {shown}"
        at += segment.tokens


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
