"""Argument parser of `python -m trainer`."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainer.cli import branch, estimate_memory, models, publish, serve_sampler, tokens
from trainer.config.files import preset_names
from trainer.engines.vllm import serve

LOG_LEVELS = ("debug", "info", "warning", "error")


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    root = argparse.ArgumentParser(prog="python -m trainer", description="Train language-model agents with StarPO.")
    root.add_argument("--log-level", choices=LOG_LEVELS, default="warning", help="default: warning")
    commands = root.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train a policy; --resume continues a folder with a checkpoint")
    sft = commands.add_parser("sft", help="imitate a solver, with LoRA of rank 64 and α 32 unless set otherwise")
    for command in (train, sft):
        _add_settings(command)
        _add_folder(command)
        command.add_argument(
            "--processes",
            type=_positive,
            metavar="N",
            help="N learners and N rollout actors, a pair on each GPU (Ray): the settings learners, rollout_actors and "
            "resources of cluster",
        )
        command.add_argument("--log-level", choices=LOG_LEVELS, default=argparse.SUPPRESS, help="default: warning")
        command.add_argument(
            "--profile",
            type=Path,
            metavar="PATH",
            help="write cProfile statistics there, or a trace of the torch profiler if the name ends in .json",
        )
    _add_policy_commands(commands)
    build = commands.add_parser("build-pocket", help="rebuild a shipped pocket policy, or all of them (minutes each)")
    build.add_argument("--all", action="store_true", help="the policies of all courses, one after the other")
    build.add_argument("--out", type=Path, help="where to write it (default: the shipped checkpoint)")
    build.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="course or think of the warm-up"
    )
    _add_demonstrate(commands)
    trap = commands.add_parser("echo-trap", help="test Echo Trap detection on recorded runs")
    trap.add_argument(
        "action", choices=("backtest",), help="report its alarms in each run, and whether they were right"
    )
    trap.add_argument("journals", nargs="+", type=Path, help="journal.jsonl of runs, or their folders")
    serve.arguments(commands.add_parser("serve-vllm", help="a vLLM server for runs with engine.name=server"))
    commands.add_parser("presets", help="list the presets")
    environments = commands.add_parser("environments", help="list the environments, or the variants of an adapter")
    environments.add_argument("name", nargs="?", help="an adapter, as in Gymnasium: list its variants")
    environments.add_argument("--search", default="", metavar="WORD", help="only variants whose line contains it")
    memory = commands.add_parser("estimate-memory", help="memory estimate of some settings, item by item")
    estimate_memory.arguments(memory)
    models.arguments(commands.add_parser("models", help="list, install and remove language models"))
    _add_study(commands)
    replay = commands.add_parser("replay-update", help="run a recorded update again and compare its metrics")
    replay.add_argument("folder", type=Path, help="folder of a training run")
    replay.add_argument("iteration", type=int, help="counted from 1; the checkpoint before it must be kept")
    tokens.arguments(commands.add_parser("tokens", help="tokens of an attempt, with probabilities under a checkpoint"))
    branch.arguments(commands.add_parser("branch", help="play on from a position of a recorded attempt"))
    serve_sampler.arguments(
        commands.add_parser("sampler", help="answer questions about recorded attempts, as JSON lines")
    )
    change = commands.add_parser("change", help="change settings of a run in training, or rewind it")
    change.add_argument("folder", type=Path, help="folder of the run; a run of a site is changed on its page")
    change.add_argument("--set", action="append", default=[], metavar="SECTION.FIELD=VALUE", help="may be repeated")
    change.add_argument(
        "--rewind-to", type=int, metavar="ITERATION", help="go back to the kept checkpoint of this iteration first"
    )
    change.add_argument("--why", default="", help="reason, for the journal")
    return root


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number of at least 1, not {text!r}")
    return int(text)


def _add_settings(command: argparse.ArgumentParser) -> None:
    source = command.add_mutually_exclusive_group()
    source.add_argument("--preset", help=f"one of {', '.join(preset_names())}")
    source.add_argument("--config", type=Path, help="a YAML file with a run's settings")
    command.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="change a setting")


def _add_folder(command: argparse.ArgumentParser) -> None:
    command.add_argument("--out", type=Path, required=True, help="folder for journal and results")
    command.add_argument("--resume", action="store_true", help="continue the run in the folder, if there is one")


def _add_policy_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands for existing policies."""
    evaluate = commands.add_parser("evaluate", help="play a policy through fixed puzzles, without learning")
    evaluate.add_argument(
        "--policy", required=True, help="folder of a checkpoint or a run, installed model, hub id, or pocket"
    )
    evaluate.add_argument("--hosted", default="", metavar="URL", help="endpoint at which --policy is a model's name")
    evaluate.add_argument("--suites", nargs="+", default=[], metavar="SUITE", help="as in Sokoban FrozenLake:size=5")
    _add_settings(evaluate)
    _add_folder(evaluate)
    matrix = commands.add_parser("matrix", help="several policies through the same suites: trained on × evaluated on")
    matrix.add_argument("--policies", nargs="+", required=True, metavar="POLICY", help="also as name=policy")
    matrix.add_argument("--suites", nargs="+", required=True, metavar="SUITE", help="as in Sokoban FrozenLake:size=5")
    _add_settings(matrix)
    _add_folder(matrix)
    publish.arguments(commands)


def _add_demonstrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demonstrate = commands.add_parser(
        "demonstrate", help="write a solver's play as JSON lines: thoughts, actions, messages"
    )
    demonstrate.add_argument("--environment", required=True, help="name of an environment whose solver gives hints")
    demonstrate.add_argument("--count", type=int, default=100, help="number of episodes (default: 100)")
    demonstrate.add_argument("--noise", type=float, default=0.0, help="share of random actions, 0 to 1")
    demonstrate.add_argument(
        "--mistake-rate", type=float, default=0.0, help="share of turns with a mistake, which are not taught, 0 to 1"
    )
    demonstrate.add_argument("--seed", type=int, default=0, help="seed of everything random (default: 0)")
    demonstrate.add_argument("--out", type=Path, required=True, help="the file to write")
    demonstrate.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="change a setting")


def _add_study(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    study = commands.add_parser(
        "study", help="run the grid behind a figure or table of the paper; an interrupted one is continued"
    )
    study.add_argument("name", nargs="?", help="name of the study, see --list")
    study.add_argument("--list", action="store_true", help="list all studies with their sizes and estimated times")
    study.add_argument("--scale", choices=("smoke", "pocket", "paper"), default="pocket", help="default: pocket")
    study.add_argument("--out", type=Path, help="folder for its runs (default: var/studies/NAME-SCALE)")
    study.add_argument("--docs", type=Path, help="write page and picture into this folder as well")
    study.add_argument(
        "--reuse",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="folder of other studies: their complete runs with the same settings are not repeated (several times)",
    )
    study.add_argument("--seeds", type=int, help="runs of each cell (default: the study's own)")
    study.add_argument("--jobs", type=int, help="concurrent runs (default: as many as the cores allow)")
    study.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="change a setting of all runs")
