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
    """Return the complete configuration as YAML for the trainer's command line."""
    return _dump_yaml(json.dumps(config.model_dump(mode="json")))


@lru_cache(maxsize=32)
def _dump_yaml(document: str) -> str:
    """Dump a configuration in JSON as YAML. Cached: dumping is slow, and most configurations viewed are presets."""
    return yaml_text(ordered_dump(json.loads(document)))


def as_curl(site: str, request: LaunchRequest, *, name_team: bool) -> str:
    """Return an equivalent API call, which reads the token from an environment variable.

    Args:
        site: address of the site, without a slash at its end.
        request: request with a valid configuration and a preset.
        name_team: True if the author is in several teams, so that the call has to name one.
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
