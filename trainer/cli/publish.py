"""Commands that write a run's policy or trajectories for others, and upload them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from trainer.journal.protocol import BAD_CONFIGURATION, COMPLETED, FAILED


def arguments(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both commands to the parser."""
    export = commands.add_parser("export", help="write a run's policy for transformers, vLLM and others")
    export.add_argument("--iteration", type=int, help="iteration of the checkpoint (default: the newest)")
    export.add_argument("--dtype", choices=("float32", "bfloat16"), help="precision (default: as it was trained)")
    export.add_argument("--adapter", action="store_true", help="only the LoRA adapter, in the format of peft")
    trajectories = commands.add_parser("export-trajectories", help="write a run's trajectories as a data set")
    trajectories.add_argument(
        "--split", choices=("train", "eval", "both"), default="both", help="of training, evaluations, or both (default)"
    )
    for command in (export, trajectories):
        command.add_argument("--run", type=Path, required=True, help="folder of the run")
        command.add_argument("--out", type=Path, required=True, help="folder to write")
        command.add_argument("--license", default="", metavar="ID", help="licence in the card, as in apache-2.0")
        command.add_argument("--push", metavar="OWNER/NAME", help="upload the folder to the Hugging Face Hub")
        command.add_argument("--private", action="store_true", help="push to a private repository")


def export_policy(arguments: argparse.Namespace) -> int:
    """Write a policy with its model card. Returns the exit code."""
    from transformers.utils import logging

    from trainer.loops.export import export
    from trainer.publishing import model_card, run_facts

    logging.disable_progress_bar()
    options = {name: getattr(arguments, name) for name in ("iteration", "dtype", "adapter")}

    def write() -> str:
        run, out = arguments.run, arguments.out
        source = export(run, out, **options)
        facts = run_facts.read_facts(run, int(source.name))
        sample = model_card.choose_sample(run, facts.iteration)
        model_card.write_card(out, facts, sample, licence=arguments.license, adapter=arguments.adapter)
        return f"{out}: the policy of {source}"

    return _published(arguments, "model", write)


def export_dataset(arguments: argparse.Namespace) -> int:
    """Write trajectories with a dataset card. Returns the exit code."""
    from trainer.publishing.dataset import SPLITS, export_trajectories

    def write() -> str:
        splits = SPLITS if arguments.split == "both" else (arguments.split,)
        counts = export_trajectories(arguments.run, arguments.out, splits=splits, licence=arguments.license)
        return f"{arguments.out}: {', '.join(f'{count} trajectories ({split})' for split, count in counts.items())}"

    return _published(arguments, "dataset", write)


def _published(arguments: argparse.Namespace, kind: Literal["model", "dataset"], write: Callable[[], str]) -> int:
    """Write the folder, and upload it if requested; the requirements of an upload are checked first."""
    from trainer.publishing import hub

    try:
        if arguments.private and not arguments.push:
            raise ValueError("--private belongs to --push OWNER/NAME")
        if arguments.push:
            hub.check_push(arguments.push)
        print(write())
        if arguments.push:
            message = f"{'Policy' if kind == 'model' else 'Trajectories'} of an Echoscope run"
            print(hub.push(arguments.out, arguments.push, kind, private=arguments.private, message=message))
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_CONFIGURATION
    return COMPLETED
