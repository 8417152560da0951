"""Entry point of `python -m trainer`: parses the command line and runs the command."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from pydantic import ValidationError

import envs
from trainer import timeouts
from trainer.cli import branch, change_settings, environments, estimate_memory, models, publish, serve_sampler, tokens
from trainer.cli.parser import parser
from trainer.cli.profiling import profiled
from trainer.config.files import (
    NO_DEFAULTS,
    Defaults,
    load_preset,
    load_yaml,
    preset_names,
    validation_errors,
    with_overrides,
)
from trainer.config.notes import notes
from trainer.config.run import EnvironmentConfig, RunConfig, WarmupConfig
from trainer.engines.vllm import serve
from trainer.journal import disk_space, run_log
from trainer.journal.protocol import (
    BAD_CONFIGURATION,
    COMPLETED,
    CONFIG_FILE,
    DISK_FULL,
    FAILED,
    INTERRUPTED,
    JOURNAL_FILE,
)
from trainer.journal.reader import count_attempts
from trainer.paths import default_cache

if TYPE_CHECKING:
    from trainer.loops.generalization import GeneralizationMatrix
    from trainer.studies.command import RequestedStudy
    from trainer.studies.grid import Cell

_BASELINE = {"lora": {"rank": 64, "alpha": 32}}
"""Defaults of `sft`: settings of the paper's baseline (appendix C), in addition to the section `sft`."""


class Stop:
    """Flag that becomes true once the process received SIGTERM or SIGINT (Ctrl-C)."""

    def __init__(self) -> None:
        self.requested = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: object) -> None:
        self.requested = True

    def __call__(self) -> bool:
        return self.requested


def default_config(environment: str) -> RunConfig:
    """Return the environment with its recommended budgets. Raises ValueError for an unknown name."""
    return RunConfig(environment=EnvironmentConfig(name=envs.spec(environment).name))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns 0 completed, 1 failed, 2 bad configuration, 74 disk full, 75 stopped on request with a
    checkpoint.
    """
    arguments = parser().parse_args(argv)
    run_log.configure(arguments.log_level)
    try:
        work = prepare(arguments)
    except ValidationError as error:
        for field, problem in validation_errors(error):
            print(f"error: {field or 'settings'}: {problem}", file=sys.stderr)
        return BAD_CONFIGURATION
    except BrokenPipeError:
        raise  # of `| head`, see broken_pipe.py
    except (ValueError, OSError) as error:
        _print_error(error)
        return DISK_FULL if disk_space.is_full(error) else BAD_CONFIGURATION
    try:
        with profiled(getattr(arguments, "profile", None)):
            return work()
    except Exception as error:
        if not disk_space.is_full(error):
            raise
        _print_error(error)
        return DISK_FULL


def _print_error(error: Exception) -> None:
    """Print the error, unless standard error is a file on a full disk."""
    try:
        print(f"error: {error}", file=sys.stderr)
    except OSError:
        pass


def prepare(arguments: argparse.Namespace) -> Callable[[], int]:
    """Validate the arguments of a command and return its work, which no longer fails because of them."""
    timeouts.check()
    return _PREPARATIONS[arguments.command](arguments)


def _prepare_sft(arguments: argparse.Namespace) -> Callable[[], int]:
    return _prepare_run(with_overrides(_run_config(arguments, _BASELINE), ["kind=sft"]), arguments)


def _prepare_pocket(arguments: argparse.Namespace) -> Callable[[], int]:
    settings = with_overrides(RunConfig(), [f"warmup.{pair}" for pair in arguments.set]).warmup
    return partial(_build_pocket, settings, arguments.out, every=arguments.all)


def _base_config(arguments: argparse.Namespace, defaults: Defaults = NO_DEFAULTS) -> RunConfig | None:
    """Return the settings of --preset or --config; None without either.

    Args:
        defaults: defaults of the command for settings that the preset or file leaves out.
    """
    if arguments.preset:
        return load_preset(arguments.preset, defaults)
    return load_yaml(arguments.config, defaults) if arguments.config else None


def _run_config(arguments: argparse.Namespace, defaults: Defaults = NO_DEFAULTS) -> RunConfig:
    """Return the settings of --preset or --config with the changes of --set. Raises ValueError without any."""
    base = _base_config(arguments, defaults)
    if base is None and not arguments.set:
        raise ValueError("name the settings: --preset, --config, or --set such as --set environment.name=Bandit")
    return with_overrides(base or RunConfig.model_validate(defaults), arguments.set)


def _prepare_run(config: RunConfig, arguments: argparse.Namespace, stop: Stop | None = None) -> Callable[[], int]:
    """Return the work of a run of any kind in the folder of --out."""
    folder: Path = arguments.out
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return _refuse_torchrun
    count = getattr(arguments, "processes", None)
    several = config if count is None else config.with_processes(count)
    for note in notes(config):
        print(f"note: {note}", file=sys.stderr)
    _claim(arguments)
    (folder / CONFIG_FILE).write_text(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
    return partial(_train, several, folder, stop)


def _refuse_torchrun() -> int:
    """Return the exit code of each process started by torchrun; the first one prints the reason."""
    if os.environ.get("RANK", "0") == "0":
        _print_error(
            ValueError(
                f"torchrun started {os.environ['WORLD_SIZE']} processes, but several learners of a run are Ray "
                "actors: start one process by `python -m trainer train` with the option --processes "
                f"{os.environ['WORLD_SIZE']} (docs/cluster.md)"
            )
        )
    return BAD_CONFIGURATION


def _claim(arguments: argparse.Namespace) -> None:
    folder: Path = arguments.out
    if not arguments.resume and count_attempts(folder):
        raise ValueError(f"{folder} already holds a run: add --resume to continue it, or choose another --out")
    folder.mkdir(parents=True, exist_ok=True)


def _prepare_evaluation(arguments: argparse.Namespace) -> Callable[[], int]:
    stop = Stop()  # before the slow imports, so that an early signal is not lost
    from trainer.loops.evaluate import evaluation_config
    from trainer.loops.generalization import find_run_settings

    base = _base_config(arguments) or (None if arguments.hosted else find_run_settings(arguments.policy))
    if base is None and any(pair.startswith("environment.name=") for pair in arguments.set):
        base = RunConfig()
    if base is None:
        raise ValueError(
            f"{arguments.policy} is no run's folder with settings: add --preset or --config, "
            "or --set environment.name=NAME"
        )
    config = evaluation_config(base, arguments.policy, arguments.suites, arguments.hosted)
    return _prepare_run(with_overrides(config, arguments.set), arguments, stop)


def _prepare_matrix(arguments: argparse.Namespace) -> Callable[[], int]:
    stop = Stop()
    from trainer.loops.generalization import GeneralizationMatrix, rows

    base = with_overrides(_base_config(arguments) or RunConfig(), arguments.set)
    matrix = GeneralizationMatrix(
        base, rows(arguments.policies), arguments.suites, arguments.out, default_cache(), stop
    )
    _claim(arguments)
    return partial(_matrix, matrix)


def _prepare_change(arguments: argparse.Namespace) -> Callable[[], int]:
    request = change_settings.prepare(arguments)
    return lambda: _print(request())


def _prepare_demonstrations(arguments: argparse.Namespace) -> Callable[[], int]:
    for option, share in (("--noise", arguments.noise), ("--mistake-rate", arguments.mistake_rate)):
        if not 0 <= share <= 1:
            raise ValueError(f"{option} is a share from 0 to 1, not {share:g}")
    if arguments.count < 1:
        raise ValueError(f"--count must be at least 1, not {arguments.count}")
    if arguments.seed < 0:
        raise ValueError(f"--seed must be at least 0, not {arguments.seed}")
    config = with_overrides(default_config(arguments.environment), arguments.set)
    return partial(_demonstrate, config, arguments)


def _prepare_study(arguments: argparse.Namespace) -> Callable[[], int]:
    from trainer.studies import catalogue, command

    if arguments.list:
        print(command.listing())
        return lambda: COMPLETED
    if arguments.name is None:
        raise ValueError(f"name a study: {', '.join(catalogue.STUDIES)}; see --list")
    for name in ("seeds", "jobs"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 1:
            raise ValueError(f"--{name} must be at least 1, not {getattr(arguments, name)}")
    study = catalogue.find(arguments.name)
    plan = command.RequestedStudy(
        study=study,
        scale=arguments.scale,
        out=arguments.out or command.default_folder(study.name, arguments.scale),
        seeds=arguments.seeds or study.seeds[arguments.scale],
        jobs=arguments.jobs,
        overrides=tuple(arguments.set),
        docs=arguments.docs,
        reuse=tuple(arguments.reuse),
    )
    return partial(_study, plan, plan.cells())


def _train(config: RunConfig, folder: Path, stop: Stop | None = None) -> int:
    stop = stop or Stop()  # before the slow imports, so that an early signal is not lost
    from transformers.utils import logging

    from trainer.loops import run_factory
    from trainer.loops.evaluate import results, table

    logging.disable_progress_bar()  # standard error goes to the log
    try:
        end = run_factory.run(config, folder, default_cache(), stop)
    except _failures() as error:
        return _failed(error)
    print(end.message)
    if config.kind == "evaluate":
        print(table(results(folder, config).values(), config.environment.labels))
    for name, value in end.summary.items():
        print(f"  {name}: {value:g}")
    return INTERRUPTED if end.reason == "interrupted" else COMPLETED


def _failures() -> tuple[type[Exception], ...]:
    """Return the exceptions of a run that their message explains to the user, without a traceback."""
    from trainer.loops.session import EXPLAINED_ERRORS

    return (*EXPLAINED_ERRORS, OSError)


def _failed(error: Exception) -> int:
    from trainer.loops.session import BAD_SETTINGS

    _print_error(error)
    if disk_space.is_full(error):
        return DISK_FULL
    return BAD_CONFIGURATION if isinstance(error, BAD_SETTINGS) else FAILED


def _replay_update(folder: Path, iteration: int) -> int:
    from transformers.utils import logging

    from trainer.journal.reader import JournalError
    from trainer.loops.replay_update import ReplayError, replay_update

    logging.disable_progress_bar()
    try:
        replay = replay_update(folder, iteration)
    except (ReplayError, JournalError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_CONFIGURATION
    except _failures() as error:
        return _failed(error)
    for message in replay.warnings:
        print(f"warning: {message}", file=sys.stderr)
    print(replay.table())
    return COMPLETED


def _matrix(matrix: GeneralizationMatrix) -> int:
    from transformers.utils import logging

    from trainer.loops.generalization import table

    logging.disable_progress_bar()
    try:
        end, result = matrix.play()
    except _failures() as error:
        return _failed(error)
    print(end.message)
    if result is not None:
        print(table(result), end="")
    return COMPLETED if result is not None else INTERRUPTED


def _build_pocket(settings: WarmupConfig, folder: Path | None, *, every: bool) -> int:
    from trainer.cli import build_pocket

    for recipe, target in build_pocket.plan(settings, folder, every=every):
        build_pocket.build(recipe, target, report=lambda line: print(line, file=sys.stderr, flush=True))
    return COMPLETED


def _demonstrate(config: RunConfig, arguments: argparse.Namespace) -> int:
    from trainer.imitation import demonstration_files

    out: Path = arguments.out
    try:
        successes = demonstration_files.write_demonstrations(
            out,
            config,
            arguments.seed,
            number=arguments.count,
            noise=arguments.noise,
            mistake_rate=arguments.mistake_rate,
        )
    except (demonstration_files.NoSolverError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    print(f"{out}: {arguments.count} episodes of {config.environment.name}, {successes} of them successful")
    return COMPLETED


def _study(plan: RequestedStudy, cells: Sequence[Cell]) -> int:
    stop = Stop()
    from trainer.studies import command, grid

    try:
        done = command.run(plan, cells, stop, report=partial(print, flush=True))
    except (grid.CellFailedError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    return COMPLETED if done else INTERRUPTED


def _backtest(paths: Sequence[Path]) -> int:
    from trainer.diagnostics import backtest

    results = {}
    for path in paths:
        journal = path / JOURNAL_FILE if path.is_dir() else path
        try:
            name = str(journal.parent if journal.name == JOURNAL_FILE else journal)
            results[name] = backtest.backtest(*backtest.read_metrics(journal))
        except (OSError, ValueError) as error:
            print(f"error: {journal}: {error}", file=sys.stderr)
            return FAILED
    print(backtest.table(results))
    return COMPLETED


def _print(text: str) -> int:
    print(text)
    return COMPLETED


def _list_presets() -> int:
    print("\n".join(preset_names()))
    return COMPLETED


_PREPARATIONS: dict[str, Callable[[argparse.Namespace], Callable[[], int]]] = {
    "train": lambda arguments: _prepare_run(_run_config(arguments), arguments),
    "sft": _prepare_sft,
    "evaluate": _prepare_evaluation,
    "matrix": _prepare_matrix,
    "export": lambda arguments: partial(publish.export_policy, arguments),
    "export-trajectories": lambda arguments: partial(publish.export_dataset, arguments),
    "build-pocket": _prepare_pocket,
    "demonstrate": _prepare_demonstrations,
    "study": _prepare_study,
    "estimate-memory": lambda arguments: partial(_print, estimate_memory.report(_run_config(arguments), arguments)),
    "environments": lambda arguments: partial(_print, environments.report(arguments.name, arguments.search)),
    "models": lambda arguments: partial(models.run, arguments),
    "echo-trap": lambda arguments: partial(_backtest, arguments.journals),
    "replay-update": lambda arguments: partial(_replay_update, arguments.folder, arguments.iteration),
    "tokens": lambda arguments: partial(tokens.compute, arguments),
    "branch": lambda arguments: partial(branch.ask, arguments, branch.question(arguments)),
    "sampler": lambda arguments: partial(serve_sampler.serve, arguments),
    "change": _prepare_change,
    "serve-vllm": lambda arguments: partial(serve.serve, *serve.command(arguments)),
    "presets": lambda arguments: _list_presets,
}
"""Commands, each with the function that validates its arguments."""
