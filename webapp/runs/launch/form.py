"""The launch form: parsing of posted forms and YAML, error messages by field."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

import envs
from trainer.config.files import validation_errors
from trainer.config.run import RunConfig
from webapp.runs.launch import plain_yaml
from webapp.runs.launch.fields import full_labels, leaves, names, with_labels
from webapp.runs.launch.layout import ESSENTIALS
from webapp.runs.launch.number_limits import LIMIT_ERRORS, NUMBER_ERRORS, number_wanted
from webapp.runs.launch.texts import SETTINGS, VARIANT, base_type, get_field_kind, text_to_data

MODEL_CARD = "model_card"
"""Field of the form with the model of the chosen card; empty if `policy.model` is typed instead."""
MODEL_SHOWN = "model_shown"
"""Hidden field with the initial value of `policy.model`: if the setting was edited since, it takes precedence."""


@dataclass(frozen=True)
class Parsed:
    """Settings of a form. `config` is set if they are valid; `errors` are by field, "" for the form as a whole."""

    data: dict[str, Any]
    config: RunConfig | None
    errors: dict[str, str]

    @classmethod
    def of(cls, config: RunConfig) -> Parsed:
        """Return the parsed form of a valid configuration."""
        return cls(config.model_dump(), config, {})


def parse(post: Mapping[str, str]) -> Parsed:
    """Parse and validate a posted form."""
    parsed = _validated(read(post))
    missing = {name: "is required" for name in parsed.errors if name in post and not post[name].strip()}
    return Parsed(parsed.data, parsed.config, parsed.errors | missing)


def overlaid(values: dict[str, Any], query: Mapping[str, str]) -> Parsed:
    """Return the values with the essential settings of an address such as `?preset=…&iterations=20`."""
    data = copy.deepcopy(values)
    for name, info in leaves(RunConfig, ""):
        if name in query and name in ESSENTIALS:
            _put(data, name, text_to_data(query, name, info))
    return _validated(data)


def _validated(data: dict[str, Any]) -> Parsed:
    errors: dict[str, str] = {}
    environment = data["environment"]
    name = environment["name"]
    if name in envs.names():
        model = envs.settings_model(name)
        try:
            environment["settings"] = model.model_validate(environment["settings"]).model_dump(exclude_defaults=True)
        except ValidationError as error:
            problems = reversed(validation_errors(error))
            errors |= {f"{SETTINGS}.{where}" if where else _of_all_settings(model): text for where, text in problems}
    try:
        sound = data | {"environment": environment | {"settings": {} if errors else environment["settings"]}}
        config = RunConfig.model_validate(sound)
    except ValidationError as error:
        for where, text in reversed(_messages(error)):
            errors[_find_field(where, text)] = _entry_prefix(where) + text
        config = None
    return Parsed(data, None if errors else config, errors)


def read(post: Mapping[str, str]) -> dict[str, Any]:
    """Return the posted texts as nested data for RunConfig. Absent switches are off, empty optional fields are None."""
    data: dict[str, Any] = {}
    for name, info in leaves(RunConfig, ""):
        if name != SETTINGS:
            _put(data, name, text_to_data(post, name, info))
    typed = post.get("policy.model", "")
    if post.get(MODEL_CARD) and typed == post.get(MODEL_SHOWN, typed):
        data["policy"]["model"] = post[MODEL_CARD]
    environment = data.setdefault("environment", {})
    environment["settings"] = {}
    if environment.get("name") in envs.names():
        for name, info in leaves(envs.settings_model(environment["name"]), f"{SETTINGS}."):
            value = text_to_data(post, name, info)
            if value is not None and not (get_field_kind(info, name) == "switch" and f"{name}.shown" not in post):
                environment["settings"][name.removeprefix(f"{SETTINGS}.")] = value
    return data


def from_yaml(text: str) -> RunConfig:
    """Load a configuration from YAML. Raises ValueError (or its subclass ValidationError; see list_problems)."""
    data = plain_yaml.load(text)
    if not isinstance(data, dict):
        raise ValueError("YAML must hold a mapping of settings, such as “iterations: 50”")
    return RunConfig.model_validate(data)


def list_problems(error: ValueError) -> list[tuple[str, str]]:
    """Return (dotted field or "", message) for each problem."""
    return validation_errors(error) if isinstance(error, ValidationError) else [("", str(error))]


def _of_all_settings(model: type[BaseModel]) -> str:
    """Return the field for problems of an environment's settings as a whole: the variant, or else the first setting."""
    return VARIANT if "id" in model.model_fields else f"{SETTINGS}.{next(iter(model.model_fields), '')}"


def _put(data: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split(".")
    for key in path:
        data = data.setdefault(key, {})
    data[last] = value


def _messages(error: ValidationError) -> list[tuple[str, str]]:
    """Return (dotted field, message) for each problem; the message about a number says which numbers are accepted."""
    fields, messages = dict(leaves(RunConfig, "")), validation_errors(error)
    for at, (item, (where, _)) in enumerate(zip(error.errors(), messages, strict=True)):
        info = fields.get(where)
        if info is None or item["type"] not in (*LIMIT_ERRORS, *NUMBER_ERRORS):
            continue
        wanted = number_wanted(info, item["type"], integer=base_type(info.annotation) is int)
        messages[at] = (where, wanted + (f", not {item['input']!r}" if item["type"] in NUMBER_ERRORS else ""))
    return messages


def sentence(name: str, label: str, text: str) -> str:
    """Return an error as a complete sentence, with the labels of settings in place of their names."""
    labels, text = full_labels(), with_labels(text)
    starts = text.startswith(("must ", "may ", "is ", "has ", "holds ", "needs ", "cannot ", "lists "))
    label = labels.get(name, label)
    return f"{label} {text}" if starts else f"{label}: {text}"


def _entry_prefix(where: str) -> str:
    """Return the start of a sentence that names the entry of a list with the problem; empty for other settings."""
    entry = re.fullmatch(r"environment\.mix\.(\d+)\.?(.*)", where)
    return f"entry {int(entry[1]) + 1}{', ' if entry[2] else ''}{entry[2]}: " if entry else ""


def _find_field(where: str, text: str) -> str:
    """Return the field of a problem: its location, or the first field that the message names."""
    fields = set(names())
    if where in fields:
        return where
    holder = where
    while holder := holder.rpartition(".")[0]:
        if holder in fields:  # one entry of a field with several
            return holder
    mentioned = [word.group() for word in re.finditer(r"[a-z_]+\.[a-z_0-9]+", text) if word.group() in fields]
    if mentioned:
        return mentioned[0]
    return f"{where}.name" if f"{where}.name" in fields else where
