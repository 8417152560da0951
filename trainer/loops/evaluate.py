"""Runs that only evaluate: a policy plays its suites and nothing is learned. Taken up again suite by suite.

What a suite is stands in suites.py; comparing several policies is matrix.py's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trainer.config.files import current_settings
from trainer.config.hosted import DECISIVE
from trainer.config.run import RunConfig
from trainer.evaluation.suites import Suite, config_for_suite, suites_of
from trainer.journal import reader
from trainer.journal.events import Evaluation, RunFinished, RunStarted
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops.train import TrainRun


def results(folder: Path, config: RunConfig) -> dict[str, Evaluation]:
    """Suites that a run with exactly this configuration has played to their end in a folder, by name.

    Raises:
        JournalError: the folder's journal is broken.
    """
    found: dict[str, Evaluation] = {}
    path, wanted = folder / JOURNAL_FILE, _evaluation_event(config.model_dump(mode="json"))
    if not path.exists():
        return found
    ours = False
    for event in reader.read(path):
        if isinstance(event, RunStarted):
            ours = _evaluation_event(current_settings(event.config)) == wanted
            found = {name: found[name] for name in event.evaluated_suites if name in found} if ours else {}
        elif isinstance(event, Evaluation) and ours:
            found[event.suite] = event
    return found


def _evaluation_event(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration without what says only how patiently a hosted model is asked, and what it may cost."""
    hosted = config.get("hosted") or {}
    decisive = {name: hosted.get(name) for name in DECISIVE} if hosted.get("url") else {}
    return config | {"hosted": decisive}


def missing(folder: Path, config: RunConfig) -> list[Suite]:
    """The suites that are still to be played."""
    known = results(folder, config)
    return [suite for suite in suites_of(config) if suite.name not in known]


def evaluation_config(base: RunConfig, policy: str, on: Sequence[str] = (), hosted: str = "") -> RunConfig:
    """The configuration of a run that plays a policy through suites; all else as in `base`.

    Args:
        base: settings of the exam and of how a dialogue is held.
        policy: what `policy.model` takes: a folder with a checkpoint, a run's folder, a hub id or "pocket".
        on: suites as `evaluation.suites` names them; none: those of `base`.
        hosted: root of an endpoint; then `policy` is a model's name there.
    Raises:
        ValueError: a suite that does not exist, or that stands there twice; no address.
    """
    if on:
        own = next((text for text in on if ":" not in text), on[0])
        if own != base.environment.name or base.environment.others:
            base = config_for_suite(base, own)
        rest = [text for text in on if text is not own]
        base = base.model_copy(update={"evaluation": base.evaluation.model_copy(update={"suites": rest})})
    data = base.model_dump()
    chosen = {"hosted": data["hosted"] | ({"url": hosted, "model": policy} if hosted else {"url": ""})}
    chosen |= {} if hosted else {"policy": data["policy"] | {"model": policy}}
    data |= {"kind": "evaluate", "name": ""} | chosen
    return RunConfig.model_validate(data)


def table(found: Iterable[Evaluation]) -> str:
    """Results in Markdown, a line for each suite; pass@k where it was measured."""
    events = list(found)
    sizes = sorted({k for event in events for k in event.pass_at if k > 1})
    titles = ["suite", "prompts", "success", "95 % interval", *(f"pass@{k}" for k in sizes)]
    titles += ["reward", "turns", "actions", "tokens a turn"]
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)]]
    for event in events:
        passed = [f"{100 * event.pass_at[k]:.1f} %" if k in event.pass_at else "" for k in sizes]
        means = (event.mean_reward, event.mean_turns, event.mean_actions)
        lines.append(
            [
                event.suite,
                f"{event.prompts} × {event.samples}" if event.samples > 1 else str(event.prompts),
                f"{100 * event.success:.1f} %",
                f"{100 * event.success_low:.1f} to {100 * event.success_high:.1f} %",
                *passed,
                *(f"{value:.2f}" for value in means),
                "" if event.mean_response is None else f"{event.mean_response:.1f}",
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


class EvaluationRun(TrainRun):
    """A run without iterations: it plays the suites that are missing and ends."""

    def _prepare(self) -> None:
        self.reporter.iterations = 0
        self.evaluated_suites = list(results(self.folder, self.config))
        super()._prepare()

    def _prepare_learning(self, saved: list[int]) -> None:
        """Nothing is learned."""

    def _loop(self) -> RunFinished | None:
        if missing(self.folder, self.config):
            self._evaluate()
        own = suites_of(self.config)[0].name
        self.progress.first_success = None
        self.progress.last_success = results(self.folder, self.config)[own].success
        number = len(suites_of(self.config))
        return self.reporter.finished("completed", f"All {number} suites are played." if number > 1 else "Played.")

    def _interrupted(self) -> RunFinished:
        done, number = len(results(self.folder, self.config)), len(suites_of(self.config))
        return self.reporter.finished(
            "interrupted", f"Stopped with {done} of {number} suites played; resume goes on with the rest."
        )
