"""`python -m trainer sampler`: answers questions about recorded attempts, as JSON lines, until its input ends."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from trainer.journal.protocol import BAD_CONFIGURATION, COMPLETED


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments to the command."""
    command.add_argument("folder", type=Path, help="folder of the run with the weights")
    weights(command)


def weights(command: argparse.ArgumentParser, default: str = "the newest") -> argparse._MutuallyExclusiveGroup:
    """Add the arguments that choose weights and their device. Returns the group of the former."""
    chosen = command.add_mutually_exclusive_group()
    chosen.add_argument("--checkpoint", type=int, metavar="K", help=f"iteration of the weights (default: {default})")
    chosen.add_argument("--initial", action="store_true", help="the policy before any training")
    command.add_argument("--device", choices=("auto", "cpu", "cuda"), default="", help="default: the run's")
    command.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads (default: the run's)")
    return chosen


def serve(arguments: argparse.Namespace) -> int:
    """Load the weights and answer questions. Returns the exit code."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing that a library prints may look like an answer
    from transformers.utils import logging

    from trainer.branching import sampler_process
    from trainer.branching.player import Weights
    from trainer.branching.policies import load_player

    logging.disable_progress_bar()
    folder, iteration = arguments.folder, 0 if arguments.initial else arguments.checkpoint
    try:
        chosen = Weights.newest(folder) if iteration is None else Weights(folder, iteration)
        player = load_player(chosen, device=arguments.device, threads=arguments.threads)
    except (ValueError, OSError) as error:  # of recordings and models: written for users
        print(f"error: {error}", file=sys.stderr)
        return BAD_CONFIGURATION
    try:
        sampler_process.serve(player, sys.stdin.buffer, answers)
    finally:
        player.close()
    return COMPLETED
