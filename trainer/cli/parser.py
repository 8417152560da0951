"""The grammar of `python -m trainer`: its commands, their options and what is said of them."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainer.cli import estimate_memory
from trainer.config.files import preset_names
from trainer.engines.vllm import serve


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    root = argparse.ArgumentParser(prog="python -m trainer", description="Train language-model agents with StarPO.")
    commands = root.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train a policy; a folder with a checkpoint is continued with --resume")
    sft = commands.add_parser("sft", help="the baseline: imitate a solver, with LoRA of rank 64 and α 32 unless --set")
    for command in (train, sft):
        _settings(command, required=True)
        _folder(command)
    _add_policy_commands(commands)
    warm = commands.add_parser("warmup", help="rebuild the shipped pocket policy (minutes)")
    warm.add_argument("--out", type=Path, help="where to write it (default: the shipped place)")
    warm.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="change a warm-up setting")
    show = commands.add_parser("demonstrate", help="write a solver's play as JSON lines: thoughts, actions, messages")
    show.add_argument("--environment", required=True, help="name of an environment whose solver gives hints")
    show.add_argument("--count", type=int, default=100, help="number of episodes (default: 100)")
    show.add_argument("--noise", type=float, default=0.0, help="share of actions replaced by random ones, 0 to 1")
    show.add_argument("--slips", type=float, default=0.0, help="share of turns that are played badly and not taught")
    show.add_argument("--seed", type=int, default=0, help="decides everything random (default: 0)")
    show.add_argument("--out", type=Path, required=True, help="the file to write")
    show.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="change a setting")
    judged = commands.add_parser("watch", help="what the Echo Trap watch says of runs, and whether it was right")
    judged.add_argument("journals", nargs="+", type=Path, help="journal.jsonl of runs, or their folders")
    serve.arguments(commands.add_parser("serve-vllm", help="a vLLM server for runs with engine.name=server"))
    commands.add_parser("presets", help="list the presets")
    estimate_memory.arguments(commands.add_parser("memory", help="what settings take of a device's memory, by parts"))
    study = commands.add_parser(
        "study", help="run the grid behind a figure or table of the paper; goes on where it was"
    )
    study.add_argument("name", nargs="?", help="which one; --list tells")
    study.add_argument("--list", action="store_true", help="show all studies with their sizes and estimated times")
    study.add_argument("--scale", choices=("smoke", "pocket", "paper"), default="pocket", help="default: pocket")
    study.add_argument("--out", type=Path, help="folder for its runs (default: var/studies/NAME-SCALE)")
    study.add_argument("--docs", type=Path, help="write page and picture into this folder as well")
    study.add_argument("--seeds", type=int, help="runs of each cell (default: the study's own)")
    study.add_argument("--jobs", type=int, help="runs at a time (default: as many as the cores allow)")
    study.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="change a setting of all runs")
    replay = commands.add_parser("replay-update", help="run a recorded update again and compare its metrics")
    replay.add_argument("folder", type=Path, help="folder of a training run")
    replay.add_argument("iteration", type=int, help="counted from 1; the checkpoint before it must be kept")
    return root


def _settings(command: argparse.ArgumentParser, *, required: bool) -> None:
    source = command.add_mutually_exclusive_group(required=required)
    source.add_argument("--preset", help=f"one of {', '.join(preset_names())}")
    source.add_argument("--config", type=Path, help="a YAML file with a run's settings")
    command.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="change a setting")


def _folder(command: argparse.ArgumentParser) -> None:
    command.add_argument("--out", type=Path, required=True, help="folder for journal and results")
    command.add_argument("--resume", action="store_true", help="continue what is in the folder, if anything")


def _add_policy_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """What is done with policies that exist."""
    exam = commands.add_parser("evaluate", help="play a policy through fixed prompts; nothing is learned")
    exam.add_argument("--policy", required=True, help="folder of a checkpoint or a run, hub id, or pocket")
    exam.add_argument("--hosted", default="", metavar="URL", help="endpoint where --policy is the name of a model")
    exam.add_argument("--on", nargs="+", default=[], metavar="SUITE", help="as in Sokoban FrozenLake:size=5")
    _settings(exam, required=False)
    _folder(exam)
    matrix = commands.add_parser("matrix", help="several policies through the same suites: trained on × evaluated on")
    matrix.add_argument("--policies", nargs="+", required=True, metavar="POLICY", help="also as name=policy")
    matrix.add_argument("--on", nargs="+", required=True, metavar="SUITE", help="as in Sokoban FrozenLake:size=5")
    _settings(matrix, required=False)
    _folder(matrix)
    export = commands.add_parser("export", help="write a run's policy for transformers, vLLM and others")
    export.add_argument("--run", type=Path, required=True, help="folder of the run")
    export.add_argument("--out", type=Path, required=True, help="folder to write")
    export.add_argument("--iteration", type=int, help="which checkpoint (default: the newest)")
    export.add_argument("--dtype", choices=("float32", "bfloat16"), help="precision (default: as it was trained)")
    export.add_argument("--adapter", action="store_true", help="the LoRA adapter alone, as peft reads it")
