"""Checks of names in a configuration, by the roles that the settings declare (envs/text_roles.py).

The launch form, the API, resuming and the worker run them, the worker just before each start: rights may have changed.
Texts of unknown meaning count as paths, so that no new setting or installed environment gives access by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings as site
from django.db.models import QuerySet
from pydantic import ValidationError

import envs
from envs.text_roles import TextRole, TextSetting, text_settings
from trainer.config.evaluation import parse_suite
from trainer.config.removed import stored_config
from trainer.config.run import POCKET, RunConfig
from trainer.journal.protocol import RUN_MODEL
from webapp.runs.inputs import endpoints, run_models, stored_models
from webapp.runs.inputs.folders import DATA, MODELS
from webapp.runs.models import Run, Worker

_HUB_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}/[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")
_ACTORS = ("rollout_actors", "learners")
"""Settings that start processes on a Ray cluster, outside of the sandbox that a worker puts around a trainer."""
_SECTIONS = ("hosted.url", "hosted.api_key_env")
"""Settings that are checked together."""
_ENVIRONMENTS = ("environment.settings", "environment.mix.settings", "sft.mix.settings", "evaluation.suites")
"""Settings with the role ENVIRONMENT, whose own texts are checked."""


def problems(config: RunConfig, readable: QuerySet[Run], *, stored: bool = False) -> dict[str, str]:
    """Return the reason why a name is refused, by dotted field.

    Args:
        config: a valid configuration.
        readable: runs that the caller may read as a member of their teams.
        stored: the run exists, and may have its own copy of a checkpoint that its source has deleted since.
    """
    reasons: dict[str, str] = {}
    for text in text_settings(config):
        if problem := _problem(text, readable, stored):
            reasons.setdefault(text.name, problem)
    actors = [name for name in _ACTORS if getattr(config.cluster, name)]
    if actors and not Worker.objects.exclude(cluster={}).exists():
        for name in actors:
            reasons[f"cluster.{name}"] = "no worker of this site stands for a Ray cluster: leave it at 0"
    if hosted := endpoints.hosted_problem(config.hosted):
        reasons.setdefault(*hosted)
    for field, problem in _environment_problems(config):
        reasons.setdefault(field, problem)
    return reasons


def refusal(run: Run) -> str:
    """Return the reason why this site may not train a stored run; empty if it may.

    Invalid configurations are left to the trainer, which rejects them before it reads anything.
    """
    try:
        config = stored_config(run.config)
    except ValidationError:
        return ""
    reasons = problems(config, run_models.readable_by_run(run), stored=True)
    return "; ".join(f"{field}: {problem}" for field, problem in reasons.items())


def is_hub_id(model: str) -> bool:
    """Return True if a `policy.model` is an id on a hub, OWNER/MODEL."""
    return bool(_HUB_ID.fullmatch(model)) and ".." not in model


def texts(config: Mapping[str, Any]) -> list[TextSetting]:
    """Return all texts of a stored configuration, and of its environments, that differ from their defaults.

    Empty for an invalid configuration, which the trainer rejects before it uses the texts.
    """
    try:
        valid = stored_config(config)
        mixes = (*valid.environment.mix, *valid.sft.mix)
        named = [
            (valid.environment.name, valid.environment.settings),
            *((entry.name, entry.settings) for entry in mixes),
        ]
        named += map(parse_suite, valid.evaluation.suites)
        return [
            *text_settings(valid),
            *(text for name, settings in named for text in _environment_texts(name, settings)),
        ]
    except ValueError:
        return []


def names_files(environment: str, settings: Mapping[str, Any]) -> bool:
    """Return True if settings of an environment name, or may name, files of the worker. Raises ValidationError.

    Servers listed by the operator do not count: the site may connect to them, too.
    """
    return any(
        text.role is not TextRole.PLAIN
        and text.text
        and not (text.role is TextRole.URL and not _url_problem(environment, text))
        for text in _environment_texts(environment, settings)
    )


def _problem(setting: TextSetting, readable: QuerySet[Run], stored: bool = False) -> str:
    """Return the reason why a text of the configuration is refused; empty if it is not, or is checked elsewhere."""
    match setting.role:
        case TextRole.PLAIN:
            return ""
        case TextRole.MODEL if setting.name == "policy.model":
            return _model_problem(setting.text, readable, stored)
        case TextRole.URL if setting.name == "engine.urls":
            return endpoints.engine_problem(setting.text)
        case TextRole.URL | TextRole.VARIABLE if setting.name in _SECTIONS:
            return ""
        case TextRole.ENVIRONMENT if setting.name in _ENVIRONMENTS:
            return ""
    return _problem_anywhere(setting)


def _problem_anywhere(setting: TextSetting) -> str:
    """Check a setting that has no rule of its own; see `_problem`."""
    if not setting.text:
        return ""
    match setting.role:
        case TextRole.PLAIN:
            return ""
        case TextRole.PATH:
            return DATA.problem(setting.text)
    return f"runs of this site may not name a {setting.role.value} here: leave it at its default"


def _url_problem(environment: str, setting: TextSetting) -> str:
    return endpoints.environment_problem(environment, setting.text) if setting.text else ""


def _environment_problem(environment: str, setting: TextSetting) -> str:
    """Check a setting of an environment; see `_problem_anywhere`."""
    match setting.role:
        case TextRole.URL:
            return _url_problem(environment, setting)
        case TextRole.COMMAND:
            return endpoints.command_problem(setting.text) if setting.text else ""
    return _problem_anywhere(setting)


def _model_problem(model: str, readable: QuerySet[Run], stored: bool) -> str:
    if model == POCKET:
        return ""
    if is_hub_id(model):
        return _hub_problem(model)
    if model.startswith(RUN_MODEL):
        return run_models.problem(model, readable, stored=stored)
    if name := stored_models.stored_name(model):
        return stored_models.problem(name)
    if not (problem := MODELS.problem(model)):
        return ""
    return (
        f"{problem}. Other models: pocket, a hub id such as Qwen/Qwen2.5-0.5B-Instruct, one of the catalogue such as "
        f"smollm2-135m, or {run_models.SPELLING}"
    )


def _hub_problem(model: str) -> str:
    """Check a hub id: the worker's account may read repositories that members of a team may not."""
    listed = site.ECHOSCOPE_HUB_MODELS
    if not listed or any(model == name or (name.endswith("/") and model.startswith(name)) for name in listed):
        return ""
    return (
        f"{model} is not among the hub models that the operator of this site listed in ECHOSCOPE_HUB_MODELS: "
        f"{', '.join(listed)}"
    )


def _environment_problems(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield (field of the form, reason) for the environments of the run, its demonstrations and its evaluation."""
    environment = config.environment
    for text in _environment_texts(environment.name, environment.settings):
        if problem := _environment_problem(environment.name, text):
            yield f"environment.settings.{text.name}", problem
    for field, mix in (("environment.mix", environment.mix), ("sft.mix", config.sft.mix)):
        for number, entry in enumerate(mix, start=1):
            for text in _environment_texts(entry.name, entry.settings):
                if problem := _environment_problem(entry.name, text):
                    yield field, f"entry {number}, settings.{text.name}: {problem}"
    for suite in config.evaluation.suites:
        name, settings = parse_suite(suite)
        for text in _environment_texts(name, settings):
            if problem := _environment_problem(name, text):
                yield "evaluation.suites", f"{suite}: {text.name}: {problem}"


def _environment_texts(environment: str, settings: Mapping[str, Any]) -> Iterator[TextSetting]:
    return text_settings(envs.settings_model(environment).model_validate(settings))
