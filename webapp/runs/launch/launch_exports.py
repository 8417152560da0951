"""Exports of the launch form: the configuration as YAML, and the launch as an API call."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from trainer.config.files import load_preset, ordered_dump
from trainer.config.run import RunConfig
from webapp.core.output_budget import yaml_text
from webapp.runs.launch.overrides import changes
from webapp.runs.launch.planning import LaunchRequest
from webapp.runs.models import Run


def as_yaml(config: RunConfig) -> str:
    """The complete configuration, as read by the trainer's command line."""
    return _yaml_of(json.dumps(config.model_dump(mode="json")))


@lru_cache(maxsize=32)
def _yaml_of(document: str) -> str:
    """YAML of a configuration in JSON. Cached: dumping is slow, and most configurations viewed are presets."""
    return yaml_text(ordered_dump(json.loads(document)))


def as_curl(site: str, request: LaunchRequest, *, name_team: bool) -> str:
    """The API call that launches the same; the token is read from an environment variable.

    Args:
        site: address of the site, without a slash at its end.
        request: with a valid configuration and a preset.
        name_team: whether the author is in several teams, so that the call has to name one.
    """
    assert request.config is not None
    payload: dict[str, Any] = {"preset": request.preset}
    if request.several:
        payload |= {"arms": list(request.arms), "seeds": request.seeds}
    if request.group:
        payload["group"] = request.group
    if overrides := changes(request.config, load_preset(request.preset)):
        payload["overrides"] = overrides
    if name_team:
        payload["team"] = request.team.slug
    if request.visibility != Run.Visibility.TEAM:
        payload["visibility"] = request.visibility.value
    scheduling = request.scheduling
    payload |= {"queue": scheduling.queue} if scheduling.queue else {}
    payload |= {} if scheduling.gpus is None else {"gpus": scheduling.gpus}
    payload |= {} if scheduling.priority == Run.Priority.NORMAL else {"priority": scheduling.priority.name.lower()}
    body = json.dumps(payload, indent=2, ensure_ascii=False).replace("'", "'\\''")
    return (
        f"curl -X POST {site}/api/{'groups' if request.several else 'runs'} \\\n"
        '  -H "Authorization: Bearer $ECHOSCOPE_TOKEN" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  -d '{body}'"
    )
