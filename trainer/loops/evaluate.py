"""Evaluation loop: a policy plays its suites; a stopped run resumes with the next suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainer.config.hosted import DECISIVE
from trainer.config.removed import stored_config
from trainer.config.run import RunConfig
from trainer.evaluation.suites import Suite, config_for_suite, get_suites
from trainer.journal import reader
from trainer.journal.events import Evaluation, RunStarted
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops.session import RunSession
from trainer.loops.stages.policy_setup import load_policy
from trainer.loops.stages.pools import make_pool
from trainer.loops.stages.rollout_stage import RolloutStage
from trainer.loops.stages.suite_evaluation import SuiteEvaluator

_BY_POLICY = {"rollout": ("format_line",), "environment": ("cells",)}
"""Settings with an `auto` that depends on the policy, see `RunConfig.with_prompts`."""


def results(folder: Path, config: RunConfig) -> dict[str, Evaluation]:
    """Return the completed suites, by name, of a run with exactly this configuration in a folder.

    Raises:
        JournalError: the folder's journal is broken.
    """
    completed: dict[str, Evaluation] = {}
    path = folder / JOURNAL_FILE
    if not path.exists():
        return completed
    same_run = False
    for event in reader.read(path):
        if isinstance(event, RunStarted):
            same_run = _is_same(event.config, config)
            valid = event.evaluated_suites if same_run else []
            completed = {name: completed[name] for name in valid if name in completed}
        elif isinstance(event, Evaluation) and same_run:
            completed[event.suite] = event
    return completed


def _is_same(recorded: dict[str, Any], config: RunConfig) -> bool:
    """True if a recorded configuration, completed with later settings, gives the same results as this one."""
    if _decisive_settings(recorded) == _decisive_settings(_as_resolved(config.model_dump(mode="json"), recorded)):
        return True
    try:
        completed = stored_config(recorded)
    except ValidationError:
        return False
    played = completed.model_dump(mode="json")
    return _decisive_settings(played) == _decisive_settings(_as_resolved(config.model_dump(mode="json"), played))


def _as_resolved(requested: dict[str, Any], recorded: dict[str, Any]) -> dict[str, Any]:
    """Replace requested settings that depend on the policy's kind (`auto`) by their recorded values."""
    data = dict(requested)
    for section, names in _BY_POLICY.items():
        recorded_section = recorded.get(section) or {}
        chosen = {
            name: recorded_section[name]
            for name in names
            if name in recorded_section and requested[section][name] == "auto"
        }
        data[section] = requested[section] | chosen
    return data


def _decisive_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that affect the results: without retries and budget of a hosted model."""
    hosted = config.get("hosted") or {}
    decisive = {name: hosted.get(name) for name in DECISIVE} if hosted.get("url") else {}
    return config | {"hosted": decisive}


def missing(folder: Path, config: RunConfig) -> list[Suite]:
    """Return the suites that are not completed."""
    completed = results(folder, config)
    return [suite for suite in get_suites(config) if suite.name not in completed]


def evaluation_config(base: RunConfig, policy: str, on: Sequence[str] = (), hosted: str = "") -> RunConfig:
    """Return the configuration of a run that plays a policy through suites; other settings are taken from `base`.

    Args:
        base: settings of the evaluation and of the dialogue.
        policy: a value of `policy.model`: a folder with a checkpoint, a run's folder, a hub id or "pocket".
        on: suites as in `evaluation.suites`; empty: the suites of `base`.
        hosted: root URL of an endpoint; then `policy` is a model's name there.
    Raises:
        ValueError: an unknown or repeated suite, or no address.
    """
    if on:
        first = next((text for text in on if ":" not in text), on[0])
        if first != base.environment.name or base.environment.mix:
            base = config_for_suite(base, first)
        rest = [text for text in on if text is not first]
        base = base.model_copy(update={"evaluation": base.evaluation.model_copy(update={"suites": rest})})
    data = base.model_dump()
    chosen = {"hosted": data["hosted"] | ({"url": hosted, "model": policy} if hosted else {"url": ""})}
    if not hosted:
        revision = base.policy.revision if policy == base.policy.model else ""
        chosen |= {"policy": data["policy"] | {"model": policy, "revision": revision}}
    data |= {"kind": "evaluate", "name": ""} | chosen
    return RunConfig.model_validate(data)


def table(evaluations: Iterable[Evaluation], labels: Mapping[str, str] | None = None) -> str:
    """Format results in Markdown, one line per suite; with pass@k if it was measured.

    Args:
        labels: display names of suites, as in `EnvironmentConfig.labels`; other suites are shown by name.
    """
    events, shown = list(evaluations), labels or {}
    sizes = sorted({k for event in events for k in event.pass_at if k > 1})
    titles = ["suite", "prompts", "success", "95% interval", *(f"pass@{k}" for k in sizes)]
    titles += ["reward", "turns", "actions", "tokens a turn"]
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)]]
    for event in events:
        passed = [f"{100 * event.pass_at[k]:.1f}%" if k in event.pass_at else "" for k in sizes]
        means = (event.mean_reward, event.mean_turns, event.mean_actions)
        lines.append(
            [
                shown.get(event.suite, event.suite),
                f"{event.prompts} × {event.samples}" if event.samples > 1 else str(event.prompts),
                f"{100 * event.success:.1f}%",
                f"{100 * event.success_low:.1f} to {100 * event.success_high:.1f}%",
                *passed,
                *("" if value is None else f"{value:.2f}" for value in means),
                "" if event.mean_response is None else f"{event.mean_response:.1f}",
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def evaluate(session: RunSession) -> None:
    """Play the suites that no earlier attempt completed."""
    completed = begin_evaluation(session)
    setup = load_policy(session)
    rollouts = RolloutStage(session, make_pool(session, setup), setup.chat)
    session.started(rollouts.pool.device, setup.policy.parameters, completed)
    play_missing(session, SuiteEvaluator(session, rollouts, completed))


def begin_evaluation(session: RunSession) -> list[str]:
    """Begin an attempt without iterations. Returns the names of the completed suites."""
    session.reporter.iterations = 0
    completed = list(results(session.folder, session.config))
    session.on_interrupt = lambda: session.finish(
        "interrupted", f"Stopped with {progress_text(session)}; resume continues with the rest."
    )
    session.resume()
    return completed


def play_missing(session: RunSession, evaluator: SuiteEvaluator) -> None:
    """Play the missing suites, and end the run with the success rate in its main environment."""
    suites = get_suites(session.config)
    if missing(session.folder, session.config):
        evaluator.run()
    session.progress.first_success = None
    session.progress.last_success = results(session.folder, session.config)[suites[0].name].success
    session.finish("completed", f"All {len(suites)} suites are played." if len(suites) > 1 else "Played.")


def progress_text(session: RunSession) -> str:
    """Return the number of completed suites as text for closing messages."""
    completed = results(session.folder, session.config)
    return f"{len(completed)} of {len(get_suites(session.config))} suites played"
