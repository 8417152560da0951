"""`python -m trainer study`: runs a study, evaluates its findings, writes its page; estimates sizes and times."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from trainer.config.run import START_SECONDS, RunConfig
from trainer.studies import cell_journal, grid, page
from trainer.studies.catalogue import STUDIES, label
from trainer.studies.cell_settings import configuration
from trainer.studies.document import markdown
from trainer.studies.grid import Cell
from trainer.studies.machine import describe
from trainer.studies.reuse import reuse, reused, study_folder
from trainer.studies.study import SCALES, Scale, Study
from trainer.studies.tables import table

RECORD = "study.json"
SMOKE_SECONDS = 1.0  # two tiny iterations; cells share a process
_SECONDS: Mapping[str, tuple[float, float, float]] = {
    "Sokoban": (6.9, 9.4, 9.0),
    "FrozenLake": (3.5, 10.4, 7.6),
    "Bandit": (0.3, 1.7, 0.7),
}
"""Seconds to play 128 trajectories, to learn from all of them with GRPO, and to play 256 in an evaluation.

Measured with the pocket policy on one thread of a busy Intel Xeon with AMX.
"""
_ADAPTERS = 1.3  # LoRA adds two products to each linear layer, in rollouts and updates


def default_folder(name: str, scale: Scale) -> Path:
    """Return the default folder of a study's runs."""
    return Path("var") / "studies" / f"{name}-{scale}"


def default_jobs(config: RunConfig) -> int:
    """Return the number of concurrent cells: as many as the cores allow; one if a cell uses all cores or a GPU."""
    threads = config.policy.threads
    return max(1, (os.cpu_count() or 1) // threads) if threads and config.policy.device != "cuda" else 1


def estimate(config: RunConfig, scale: Scale) -> float | None:
    """Estimate the seconds of one cell on one thread; None without a comparable measurement."""
    if scale == "smoke":
        return SMOKE_SECONDS
    if scale == "paper" or config.environment.name not in _SECONDS:
        return None
    play, learn, evaluate = _SECONDS[config.environment.name]
    evaluation = config.evaluation
    learn *= config.algorithm.passes
    if config.lora.rank:
        play, learn, evaluate = _ADAPTERS * play, _ADAPTERS * learn, _ADAPTERS * evaluate
    iterations = config.iterations * config.rollout.trajectories / 128 * (play + learn)
    if config.kind == "sft":
        iterations = config.iterations * config.sft.batch / 128 * learn
    evaluations = 2 + (config.iterations - 1) // evaluation.every if evaluation.every else 2
    evaluations *= 1 + len(evaluation.suites)
    return (
        START_SECONDS + iterations + evaluations * evaluation.prompts * evaluation.samples_per_prompt / 256 * evaluate
    )


def listing() -> str:
    """List all studies with their sizes and estimated times at each scale."""
    header = ("study", "title", *(f"{scale}: runs, time" for scale in SCALES))
    rows = [(study.name, study.title, *(_size(study, scale) for scale in SCALES)) for study in STUDIES.values()]
    return table(header, rows)


def _size(study: Study, scale: Scale) -> str:
    one_seed = [
        configuration(study, scale, environment, arm, 0) for environment in study.environments for arm in study.arms
    ]
    configs = one_seed * study.seeds[scale]  # seeds do not change the cost of a run
    estimates = [estimate(config, scale) for config in configs]
    count = len(configs)
    if any(seconds is None for seconds in estimates):
        return f"{count}, not measured"
    minutes = sum(seconds or 0 for seconds in estimates) / default_jobs(configs[0]) / 60
    return f"{count}, about {minutes:.0f} min" if minutes >= 1 else f"{count}, under a minute"


def _with_machine(before: str, this: str) -> str:
    """Return the machines that ran a study so far, including this one."""
    hardware, _, _ = this.partition(", load before")
    return before if hardware in before else "; ".join(filter(None, [before, this]))


def _recorded(out: Path) -> tuple[str, float]:
    """Return machines and wall-clock seconds of a study so far, "" and 0 before its first run."""
    path = out / RECORD
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return str(record.get("machine", "")), float(record.get("seconds", 0.0))


@dataclass(frozen=True)
class RequestedStudy:
    """A requested study.

    Attributes:
        overrides: changes to all cells.
        docs: receives a copy of page and picture.
        reuse: folders of other studies; their complete runs with the same settings count for this study.
    """

    study: Study
    scale: Scale
    out: Path
    seeds: int
    jobs: int | None = None
    overrides: tuple[str, ...] = ()
    docs: Path | None = None
    reuse: tuple[Path, ...] = ()

    def cells(self) -> list[Cell]:
        """Create the grid. Raises ValueError if overrides do not fit, or a folder to reuse does not exist."""
        return reuse(grid.cells(self.study, self.scale, self.seeds, self.out, self.overrides), self.reuse)

    @property
    def command(self) -> str:
        """Return the command line that repeats the study."""
        words = ["python", "-m", "trainer", "study", self.study.name, "--scale", self.scale, "--seeds", str(self.seeds)]
        words += ["--jobs", str(self.jobs)] if self.jobs else []
        words += [word for pair in self.overrides for word in ("--set", pair)]
        return shlex.join(words)


def run(plan: RequestedStudy, cells: Sequence[Cell], stop: Callable[[], bool], report: Callable[[str], None]) -> bool:
    """Run the remaining cells, then write page and picture. Returns False after a stop request.

    Raises:
        CellFailedError: a cell failed.
        ValueError: the folder contains cells with other settings.
    """
    study = plan.study
    if plan.scale == "smoke":  # one after another: loading models is not thread-safe
        jobs, play = 1, grid.run_in_process
    else:
        jobs, play = plan.jobs or default_jobs(cells[0].config), grid.run_in_subprocess
    plan.out.mkdir(parents=True, exist_ok=True)
    machine, seconds = _recorded(plan.out)
    others = reused(cells, plan.out)
    if others:
        report(f"{len(others)} of {len(cells)} cells are runs of other studies with the same settings")
    began, unfinished = time.monotonic(), not all(grid.ended(cell.folder) for cell in cells)
    if unfinished or not (machine or others):
        machine = _with_machine(machine, describe())
    try:
        done = grid.run(cells, jobs, stop, report, play)
    finally:
        if unfinished:
            seconds += time.monotonic() - began
            (plan.out / RECORD).write_text(json.dumps({"machine": machine, "seconds": seconds}, indent=2) + "\n")
    if not done:
        report("Stopped. Run the same command again to continue.")
        return False
    for folder in sorted({study_folder(cell) for cell in others}):
        machine = _with_machine(machine, _recorded(folder)[0])
    record = page.StudyRecord(
        scale=plan.scale,
        command=plan.command,
        machine=machine,
        seconds=seconds,
        reused=len(others),
        jobs=jobs,
        seeds=plan.seeds,
        date=date.today().isoformat(),
    )
    results = page.collect_results(study, [cell_journal.read(cell) for cell in cells], record)
    text = markdown(page.write(results, cells, record), f"{study.name}.svg")
    picture = page.draw(f"{label(study.name)}, {plan.scale}: {study.title}", results)
    for folder in (plan.out, *([plan.docs] if plan.docs else [])):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{study.name}.md").write_text(text, encoding="utf-8")
        (folder / f"{study.name}.svg").write_text(picture, encoding="utf-8")
        report(f"Written: {folder / study.name}.md")
    return True
