"""Facts about a run up to a checkpoint, for its model card, read from its journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import yaml

import envs
from trainer.config.base import Section, is_hub_id
from trainer.config.catalogue import catalogue
from trainer.config.dotted import holder
from trainer.config.files import load_preset, preset_names
from trainer.config.removed import stored_config
from trainer.config.run import RunConfig
from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from trainer.publishing.live_groups import is_superseded

_OWN_FIELDS = ("name", "tags", "trackers")
"""Settings that name a run and do not affect its results."""
_UNPUBLISHED = ("engine.urls", "hosted.url", "hosted.api_key_env", "tags")
"""Settings with addresses, folders or variables of the machine; cards and published settings omit them."""

PRIVATE_ADDRESS = "ADDRESS"
"""Replacement in cards for the address of a server that others may not reach."""

_PRIVATE_DOMAINS = (".local", ".internal", ".lan", ".home", ".corp", ".localhost", ".intranet")


@dataclass
class RunFacts:
    """A run up to the iteration of a checkpoint."""

    iteration: int
    start: events.RunStarted
    config: RunConfig
    success: dict[int, float] = field(default_factory=dict)
    """Success rate of the rollouts, by iteration."""
    evaluations: list[events.Evaluation] = field(default_factory=list)
    """Evaluations in the order of the journal."""
    tokens: int = 0
    seconds: float = 0.0
    rewinds: list[events.Rewound] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Title of the run with its environments in their public form: a default title names their variants."""
        title = self.start.title
        labels = self.config.environment.labels.values()
        for label, published in zip(labels, environment_labels(self.config), strict=True):
            title = title.replace(label, published)
        return title

    @property
    def latest(self) -> list[events.Evaluation]:
        """The latest evaluation of each suite."""
        return list({evaluation.suite: evaluation for evaluation in self.evaluations}.values())

    @property
    def measured(self) -> list[events.Evaluation]:
        """Evaluations of exactly these weights."""
        return [evaluation for evaluation in self.latest if evaluation.iteration == self.iteration]


def read_facts(run: Path, iteration: int | None = None) -> RunFacts:
    """Read the journal of a run folder.

    Args:
        iteration: iteration of the checkpoint; later events are omitted. None: everything.
    Raises:
        ValueError: the folder has no journal, the run never started, another trainer recorded it, or a line is not an
            event.
    """
    if started_elsewhere(run):
        raise ValueError(f"another trainer recorded the run in {run}: only its trajectories can be exported")
    journal = run / JOURNAL_FILE
    facts: RunFacts | None = None
    for event in reader.read(journal):
        if isinstance(event, events.RunStarted):
            facts = _started(facts, event)
        elif facts is not None and (iteration is None or getattr(event, "iteration", 0) <= iteration):
            _add(facts, event)
    if facts is None:
        raise ValueError(f"the run in {run} never started: its journal has no run_started event")
    if iteration is not None:
        facts.iteration = iteration
    return facts


def started_elsewhere(run: Path) -> bool:
    """True if another trainer's loop recorded the run, so that its settings are not ours.

    Raises:
        ValueError: the folder has no journal, or a line is not an event.
    """
    journal = run / JOURNAL_FILE
    if not journal.is_file():
        raise ValueError(f"{run} has no {JOURNAL_FILE}: name the folder of a run")
    start = next((event for event in reader.read(journal) if isinstance(event, events.RunStarted)), None)
    return start is not None and "recorded" in start.config


def _started(facts: RunFacts | None, start: events.RunStarted) -> RunFacts:
    if facts is None:
        return RunFacts(0, start, stored_config(start.config))
    facts.success = {at: value for at, value in facts.success.items() if at <= start.from_iteration}
    facts.evaluations = [e for e in facts.evaluations if not is_superseded(start, "eval", e.iteration, e.suite)]
    facts.start = facts.start.model_copy(update={"attempt": start.attempt, "versions": start.versions})
    return facts


def _add(facts: RunFacts, event: events.Event) -> None:
    match event:
        case events.Metrics():
            facts.iteration = max(facts.iteration, event.iteration)
            facts.tokens, facts.seconds = event.tokens or 0, event.seconds
            if "success/rate" in event.values:
                facts.success[event.iteration] = event.values["success/rate"]
        case events.Evaluation():
            facts.evaluations.append(event)
        case events.Rewound():
            facts.rewinds.append(event)


def public_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings without addresses, folders and variables of the machine; keep only a policy's folder name."""
    data = config.model_dump(mode="json")
    for name in _UNPUBLISHED:
        section, last = holder(data, name)
        section.pop(last, None)
    if base_model(config) is None:
        data["policy"]["model"] = Path(config.policy.model).name
    for entry in (data["environment"], *data["environment"]["mix"]):
        entry["settings"] = {name: _published(value) for name, value in entry["settings"].items()}
    return data


def environment_labels(config: RunConfig) -> tuple[str, ...]:
    """Return the display names of the run's environments, the main one first, with variants: "Gymnasium Taxi-v4"."""
    settings = public_settings(config)["environment"]
    return tuple(_label(entry["name"], entry["settings"]) for entry in (settings, *settings["mix"]))


def _label(name: str, settings: Mapping[str, Any]) -> str:
    return name if settings.get("id") == PRIVATE_ADDRESS else envs.label(name, settings)


def _published(value: Any) -> Any:
    """Return an environment's setting with only the names of files and commands, and only public addresses."""
    if not isinstance(value, str):
        return value
    if value.startswith(("http://", "https://")):
        return _published_address(value)
    if Path(value).is_absolute() and Path(value).exists():
        return Path(value).name
    words = [Path(word).name if Path(word).is_absolute() else word for word in value.split(" ")]
    return " ".join(words)


def _published_address(address: str) -> str:
    """Remove credentials and query; ADDRESS for a possibly private host."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        port = parts.port
    except ValueError:
        return PRIVATE_ADDRESS
    public = parts.scheme == "https" and "." in host and not host.endswith(_PRIVATE_DOMAINS)
    if not public or not host.rpartition(".")[2].isalpha():
        return PRIVATE_ADDRESS
    return urlunsplit((parts.scheme, host if port is None else f"{host}:{port}", parts.path, "", ""))


def base_model(config: RunConfig) -> str | None:
    """Return the hub id of the initial policy; None for the pocket policy, a folder, or a run of a site."""
    model = config.policy.model
    if model in catalogue():
        return catalogue()[model].hub_id
    return model if is_hub_id(model) and not Path(model).exists() else None


def nearest_preset(config: RunConfig) -> tuple[str, dict[str, Any]]:
    """Find the preset with the fewest different settings; returns it with these settings, without unpublished ones."""
    settings = _flat(public_settings(config))
    best: tuple[str, dict[str, Any]] | None = None
    for name in preset_names():
        shipped = _flat(public_settings(load_preset(name)))
        changes = {
            key: value for key, value in settings.items() if shipped.get(key) != value and key not in _OWN_FIELDS
        }
        if best is None or len(changes) < len(best[1]):
            best = name, changes
    assert best is not None, "there are presets"
    return best


def command(config: RunConfig) -> str:
    """Return the command line that trains with these settings."""
    preset, changes = nearest_preset(config)
    parts = [f"python -m trainer {'sft' if config.kind == 'sft' else 'train'} --preset {preset} --out DIR"]
    for name, value in changes.items():
        text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000).strip()
        text = text.removesuffix("...").strip().replace("'", "'\\''")
        parts.append(f"    --set '{name}={text}'")
    return " \\\n".join(parts)


def _flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten settings to dotted names; values that are mappings themselves stay whole."""
    flat: dict[str, Any] = {}
    for name, value in data.items():
        section = RunConfig.model_fields[name].annotation
        if isinstance(section, type) and issubclass(section, Section):
            flat |= {f"{name}.{field_name}": part for field_name, part in value.items()}
        else:
            flat[name] = value
    return flat
