"""Model card of an exported policy: README.md with metadata for the Hugging Face Hub, and its success curve."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import yaml

from trainer.config.files import ordered_dump
from trainer.journal import events
from trainer.journal.protocol import JOURNAL_FILE
from trainer.metrics.charts import Panel, Series, document
from trainer.publishing.markdown import fenced, front_matter, link_text, table
from trainer.publishing.run_facts import RunFacts, base_model, command, environment_labels, public_settings
from trainer.publishing.trajectories import RecordedTrajectory, read_trajectories

CARD = "README.md"
CURVE = "success.svg"
SETTINGS = "training_config.yaml"
_MAX_SAMPLE = 6_000
"""Maximum number of characters of the sample trajectory in the card."""


def write_card(
    folder: Path, facts: RunFacts, sample: RecordedTrajectory | None, *, licence: str, adapter: bool
) -> None:
    """Write card, settings and curve into the folder of an exported policy.

    Args:
        folder: the export; a card that is already there, such as peft's, is replaced.
        facts: facts of the run, up to the exported checkpoint.
        sample: the trajectory for the card; None for none.
        licence: an SPDX-like id of the Hub, such as apache-2.0; "" for none.
        adapter: whether the folder has an adapter instead of the whole policy.
    """
    settings = ordered_dump(public_settings(facts.config))
    (folder / SETTINGS).write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), encoding="utf-8")
    curve = success_curve(facts)
    if curve:
        (folder / CURVE).write_text(curve, encoding="utf-8")
    text = front_matter(metadata(facts, licence=licence, adapter=adapter)) + body(facts, sample, curve=bool(curve))
    (folder / CARD).write_text(text, encoding="utf-8")


def metadata(facts: RunFacts, *, licence: str = "", adapter: bool = False) -> dict[str, Any]:
    """Return the card's metadata (https://huggingface.co/docs/hub/model-cards#model-card-metadata)."""
    config, base = facts.config, base_model(facts.config)
    data: dict[str, Any] = {"license": licence} if licence else {}
    if base:
        data |= {"base_model": base, "base_model_relation": "adapter" if adapter else "finetune"}
    environments = environment_labels(config)
    methods = ["sft"] if config.kind == "sft" else ["starpo", "reinforcement-learning"]
    data |= {
        "library_name": "peft" if adapter else "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["echoscope", "agent", *methods, *sorted({f"env:{label}" for label in environments})],
    }
    if facts.measured:
        data["model-index"] = [{"name": facts.title, "results": [_result(facts, e) for e in facts.measured]}]
    return data


def _suite_label(facts: RunFacts, suite: str) -> str:
    """Return the display name of a suite, with the variant for the run's own environment, as a separate benchmark."""
    environment = facts.config.environment
    return environment_labels(facts.config)[0] if suite == environment.name else suite


def _result(facts: RunFacts, evaluation: events.Evaluation) -> dict[str, Any]:
    """Return a result of the model index; the interval and the counts are arguments of the metric."""
    suite = _suite_label(facts, evaluation.suite)
    measured = {
        "confidence": 0.95,
        "low": _rounded(evaluation.success_low),
        "high": _rounded(evaluation.success_high),
        "prompts": evaluation.prompts,
        "samples_per_prompt": evaluation.samples,
    }
    metrics: list[dict[str, Any]] = [
        {"type": "success_rate", "name": "Success rate", "value": _rounded(evaluation.success), "args": measured},
    ]
    if evaluation.mean_reward is not None:
        metrics.append({"type": "mean_reward", "name": "Mean reward", "value": _rounded(evaluation.mean_reward)})
    metrics += [
        {"type": f"pass@{k}", "name": f"pass@{k}", "value": _rounded(value)}
        for k, value in evaluation.pass_at.items()
        if k > 1
    ]
    return {
        "task": {"type": "reinforcement-learning", "name": "Multi-turn agent"},
        "dataset": {"type": suite, "name": suite, "split": "eval"},
        "metrics": metrics,
    }


def _rounded(value: float) -> float:
    return round(value, 4)


def body(facts: RunFacts, sample: RecordedTrajectory | None, *, curve: bool) -> str:
    """Return the card's text."""
    config, base = facts.config, base_model(facts.config)
    start = f"[{base}](https://huggingface.co/{base})" if base else _own_start(config.policy.model)
    trained_on = environment_labels(config)[0]
    steps = config.warmup_steps
    warmup = f"{steps} step{'' if steps == 1 else 's'} on a solver's demonstrations, then " if steps else ""
    method = f"{warmup}StarPO (estimator `{config.algorithm.estimator}`)"
    if config.kind == "sft":
        method = "the SFT baseline"
    parts = [
        f"# {link_text(facts.title)}",
        f"A language-model agent for **{link_text(trained_on)}**, trained from {start} with {method} in "
        f"Echoscope. These are the weights after iteration {facts.iteration} of {facts.start.iterations}.",
        "## Evaluation",
        evaluation_table(facts),
    ]
    if curve:
        parts.append(f"![Success by iteration]({CURVE})")
    parts += ["## Use", _use(config.rollout.system), "## Training", _training(facts)]
    parts.append(f"`{SETTINGS}` has all settings. The command for the same training:")
    parts.append(fenced(command(config), "bash"))
    if sample is not None:
        parts += ["## A trajectory", _sample_caption(sample), fenced(transcript(sample), "text")]
    return "\n\n".join(parts) + "\n"


def _own_start(model: str) -> str:
    return "Echoscope's built-in pocket policy" if model == "pocket" else f"`{Path(model).name}`"


def evaluation_table(facts: RunFacts) -> str:
    """Format each suite's latest result with its 95% interval and its weights; a sentence if there is none."""
    if not facts.latest:
        return "No evaluation was recorded."
    ks = sorted({k for evaluation in facts.latest for k in evaluation.pass_at if k > 1})
    head = ["suite", "iteration", "prompts", "success", "95% interval", *(f"pass@{k}" for k in ks), "reward", "turns"]
    rows = []
    for evaluation in facts.latest:
        samples = f" × {evaluation.samples}" if evaluation.samples > 1 else ""
        passed = [evaluation.pass_at.get(k) for k in ks]
        rows.append(
            [
                _suite_label(facts, evaluation.suite),
                str(evaluation.iteration),
                f"{evaluation.prompts}{samples}",
                f"{evaluation.success:.1%}",
                f"{evaluation.success_low:.1%} to {evaluation.success_high:.1%}",
                *("–" if value is None else f"{value:.1%}" for value in passed),
                "–" if evaluation.mean_reward is None else f"{evaluation.mean_reward:.2f}",
                "–" if evaluation.mean_turns is None else f"{evaluation.mean_turns:.1f}",
            ]
        )
    note = "" if len(facts.measured) == len(facts.latest) else "\n\nIterations differ from that of these weights."
    temperature = f"\n\nSampled at temperature {facts.config.evaluation.temperature:g}; 95% Wilson intervals."
    return table(head, rows) + temperature + note


def success_curve(facts: RunFacts) -> str:
    """Draw success by iteration as SVG, of evaluations with intervals and of rollouts; "" without any."""
    suites = list(dict.fromkeys(evaluation.suite for evaluation in facts.evaluations))
    series = [Series("rollouts", sorted(facts.success.items()))] if facts.success else []
    for number, suite in enumerate(suites, start=1):
        mine = [evaluation for evaluation in facts.evaluations if evaluation.suite == suite]
        intervals = [(e.iteration, e.success_low, e.success_high) for e in mine]
        points = [(e.iteration, e.success) for e in mine]
        series.append(Series(f"evaluation: {suite}", points, number, intervals=intervals))
    if not any(math.isfinite(y) for line in series for _, y in line.points):
        return ""
    return document(facts.title, [Panel("success", series, "share")], columns=1)


def _use(system: str) -> str:
    return (
        "The folder is an ordinary transformers checkpoint, with its chat template. A turn is a user message with the "
        "task and the state; the answer has a thought in `<think>…</think>` and actions in `<answer>…</answer>`, "
        "separated by `||`." + (f" The system message of the training was {link_text(repr(system))}." if system else "")
    )


def _training(facts: RunFacts) -> str:
    start, config = facts.start, facts.config
    versions = dict(start.versions)
    commit = versions.pop("commit", "")
    rows = [
        ["environment", config.environment.name],
        ["seed", str(config.seed)],
        ["iterations", f"{facts.iteration} of {start.iterations}"],
        ["trajectories per iteration", f"{config.rollout.groups} groups of {config.rollout.group_size}"],
        ["sampled tokens", f"{facts.tokens:,}"],
        ["time", _duration(facts.seconds)],
        ["device", start.device],
        ["parameters", f"{start.parameters:,}" if start.parameters else "unknown"],
        ["adapters", f"LoRA of rank {config.lora.rank}" if config.lora.rank else "none: all weights were trained"],
        ["attempts", str(start.attempt)],
        ["rewinds", ", ".join(f"{r.from_iteration} → {r.to_iteration}" for r in facts.rewinds) or "none"],
        ["commit of Echoscope", commit or "not recorded"],
        ["versions", ", ".join(f"{name} {version}" for name, version in versions.items()) or "not recorded"],
    ]
    return table(["", ""], rows)


def _duration(seconds: float) -> str:
    minutes, hours = round(seconds / 60), round(seconds / 3600, 1)
    return f"{hours:g} h" if hours >= 2 else f"{minutes} min" if minutes >= 2 else f"{seconds:.0f} s"


def choose_sample(run: Path, iteration: int) -> RecordedTrajectory | None:
    """Return the most instructive trajectory of the newest iteration: solved, from an evaluation, with many turns.

    Args:
        run: folder of the run.
        iteration: the newest iteration to consider.
    """
    best: tuple[tuple[int, bool, bool, int], RecordedTrajectory] | None = None
    for trajectory in read_trajectories(run / JOURNAL_FILE):
        group, end = trajectory.group, trajectory.finished
        if group.iteration > iteration or end.error is not None:
            continue
        rank = (group.iteration, bool(end.success), group.split == "eval", end.turns)
        if best is None or rank > best[0]:
            best = rank, trajectory
    return best[1] if best else None


def _sample_caption(sample: RecordedTrajectory) -> str:
    where = f"evaluation {sample.group.suite}" if sample.group.split == "eval" else "training"
    outcome = "solved" if sample.finished.success else "not solved"
    reward = sample.finished.total_reward
    return (
        f"Iteration {sample.group.iteration}, {where}, seed {sample.group.seed}: {outcome} in {len(sample.turns)} "
        f"turn{'s' if len(sample.turns) != 1 else ''}{'' if reward is None else f', total reward {reward:g}'}."
    )


def transcript(sample: RecordedTrajectory) -> str:
    """Format prompt, states, responses and rewards as text, cut after some thousand characters."""
    parts = [sample.group.prompt.strip()]
    for turn in sample.turns:
        parts += [f"── turn {turn.turn + 1}: state", turn.state.strip(), "── response", turn.response.strip()]
        parts.append(f"── reward {turn.reward:g}")
    text = "\n".join(parts)
    return text if len(text) <= _MAX_SAMPLE else f"{text[:_MAX_SAMPLE].rstrip()} …"
