"""The launch form: RunConfig as groups of fields, parsing of posted forms and YAML, error messages by field.

Settings, their help and limits are defined in trainer.config.run and in the environments.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard, Union, get_args, get_origin

import annotated_types
import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

import envs
from trainer.config.files import validation_errors
from trainer.config.former_names import current_name, current_settings, joined_name
from trainer.config.run import RunConfig
from webapp.runs.launch import hosted_endpoints

ENVIRONMENT = "environment.name"
SETTINGS = "environment.settings"
TEXTAREA_FIELDS = ("environment.instruction", "environment.mix")
"""Multi-line texts."""

LABELS = {
    "aggregation": "loss aggregation",
    "alpha": "α",
    "api_key_env": "API key variable",
    "beta1": "Adam β₁",
    "beta2": "Adam β₂",
    "clip_high": "clip high, ε_high",
    "clip_low": "clip low, ε_low",
    "context_turns": "turns in the prompt",
    "cpu_kv_cache_gib": "CPU KV cache",
    "critic_lr": "critic learning rate",
    "drop_zero_std": "drop groups without spread",
    "dtype": "precision",
    "entropy_coef": "entropy bonus",
    "gae_lambda": "λ",
    "gamma": "γ",
    "gigpo_omega": "weight of turn credit, ω",
    "gpu_memory_utilization": "GPU memory utilisation",
    "group_size": "group size, N",
    "groups": "groups, P",
    "kl_coef": "KL penalty",
    "kl_estimator": "KL estimator",
    "kl_placement": "KL placement",
    "max_cost": "cost limit",
    "max_grad_norm": "gradient norm limit",
    "max_num_seqs": "maximum sequences",
    "max_tokens_param": "max tokens parameter",
    "min_p": "min-p",
    "mini_batch_trajectories": "mini-batch, E",
    "mix": "further environments",
    "normalize_by_std": "normalise by std",
    "policy_lr": "policy learning rate",
    "tis_cap": "importance weight limit",
    "top_k": "top-k",
    "top_p": "top-p",
    "turn_gamma": "γ from turn to turn",
    "unsupported_params": "unsupported parameters",
    "updates_per_rollout": "updates per rollout",
    "value_coef": "weight of the critic's loss",
}
"""Labels that differ from the setting's name."""
TITLES = {
    "": "Run",
    "checkpoint": "Checkpoints",
    "echo_trap": "Echo Trap",
    "lora": "LoRA",
    "sft": "SFT baseline",
    "warmup": "Warm-up",
}
ABOUT = {"": "Length, name and seed."}


@dataclass(frozen=True)
class Setting:
    """A field of the form; `value` and `default` are texts."""

    name: str
    label: str
    kind: Literal["number", "text", "long", "switch", "choice"]
    value: str
    default: str
    help: str = ""
    unit: str = ""
    source: str = ""
    choices: tuple[str, ...] = ()
    integer: bool = False
    optional: bool = False
    error: str = ""

    @property
    def id(self) -> str:
        """Element id; dots would be CSS classes."""
        return "f-" + self.name.replace(".", "-")

    @property
    def differs(self) -> bool:
        return self.value != self.default


@dataclass(frozen=True)
class SettingGroup:
    """A section of RunConfig."""

    key: str
    title: str
    about: str
    settings: list[Setting] = field(default_factory=list)


@dataclass(frozen=True)
class Checked:
    """A posted form. `config` is set if it is valid; `errors` are by field, "" for the form as a whole."""

    data: dict[str, Any]
    config: RunConfig | None
    errors: dict[str, str]


def groups(values: Mapping[str, Any], base: RunConfig, errors: Mapping[str, str] | None = None) -> list[SettingGroup]:
    """Fields of the form. `values` is a (possibly invalid) configuration as nested data; `base` is for comparison."""
    errors = errors or {}
    top = list(_settings(RunConfig, "", values, base.model_dump(), errors))
    result = [SettingGroup("", TITLES[""], ABOUT[""], top)]
    for key, info in RunConfig.model_fields.items():
        section = info.annotation
        if not _is_model(section):
            continue
        settings = list(_settings(section, f"{key}.", values.get(key) or {}, getattr(base, key).model_dump(), errors))
        about = (section.__doc__ or "").strip().split("\n")[0]
        result.append(SettingGroup(key, TITLES.get(key, key.replace("_", " ").capitalize()), about, settings))
    return result


def environment_settings(
    name: str, values: Mapping[str, Any], base: Mapping[str, Any], errors: Mapping[str, str] | None = None
) -> list[Setting]:
    """Fields of an environment's own settings; none for unregistered names."""
    if name not in envs.names():
        return []
    model = envs.settings_model(name)
    return list(_settings(model, f"{SETTINGS}.", values, dict(base), errors or {}))


def check(post: Mapping[str, str]) -> Checked:
    """Parse and validate a posted form."""
    data = read(post)
    errors: dict[str, str] = {}
    environment = data["environment"]
    name = environment["name"]
    if name in envs.names():
        model = envs.settings_model(name)
        try:
            environment["settings"] = model.model_validate(environment["settings"]).model_dump(exclude_defaults=True)
        except ValidationError as error:
            errors |= {f"{SETTINGS}.{where}": text for where, text in reversed(validation_errors(error))}
    try:
        sound = data | {"environment": environment | {"settings": {} if errors else environment["settings"]}}
        config = RunConfig.model_validate(sound)
    except ValidationError as error:
        for where, text in reversed(validation_errors(error)):
            errors[_field_of(where, text)] = _entry_of(where) + text
        config = None
    if config is not None and (unwanted := hosted_endpoints.problem(config.hosted)):
        errors[unwanted[0]] = unwanted[1]
    errors |= {name: "is required" for name in errors if name in post and not post[name].strip()}
    return Checked(data, None if errors else config, errors)


def read(post: Mapping[str, str]) -> dict[str, Any]:
    """The posted texts as nested data for RunConfig. Absent switches are off, empty optional fields are None.

    Former names are accepted: the form may have been opened before an upgrade.
    """
    data: dict[str, Any] = {}
    parts = {name: joined for name in post if (joined := joined_name(RunConfig, name))}
    post = {current_name(RunConfig, name): text for name, text in post.items()}
    for name, info in _leaves(RunConfig, ""):
        if name != SETTINGS and (name in post or name not in parts.values()):
            _put(data, name, _text_to_data(post, name, info))
    for name in parts:
        _put(data, name, _pairs(post[name]))
    data = current_settings(RunConfig, data)
    environment = data.setdefault("environment", {})
    environment["settings"] = {}
    if environment.get("name") in envs.names():
        for name, info in _leaves(envs.settings_model(environment["name"]), f"{SETTINGS}."):
            value = _text_to_data(post, name, info)
            if value is not None and not (_kind(info, name) == "switch" and f"{name}.shown" not in post):
                environment["settings"][name.removeprefix(f"{SETTINGS}.")] = value
    return data


def from_yaml(text: str) -> RunConfig:
    """The configuration in a YAML text. Raises ValueError (or its subclass ValidationError; see problems_of)."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"this is not valid YAML: {error}") from None
    if not isinstance(data, dict):
        raise ValueError("YAML must hold a mapping of settings, such as “iterations: 50”")
    return RunConfig.model_validate(data)


def problems_of(error: ValueError) -> list[tuple[str, str]]:
    """(dotted field or "", message) of each problem."""
    return validation_errors(error) if isinstance(error, ValidationError) else [("", str(error))]


def names() -> list[str]:
    """Dotted names of all fields, without the environments' own settings."""
    return [name for name, _ in _leaves(RunConfig, "") if name != SETTINGS]


def _leaves(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for key, info in model.model_fields.items():
        if _is_model(info.annotation):
            yield from _leaves(info.annotation, f"{prefix}{key}.")
        else:
            yield prefix + key, info


def _settings(
    model: type[BaseModel], prefix: str, values: Mapping[str, Any], base: Mapping[str, Any], errors: Mapping[str, str]
) -> Iterator[Setting]:
    for key, info in model.model_fields.items():
        name = prefix + key
        if _is_model(info.annotation) or name == SETTINGS:
            continue
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        default = base[key] if key in base else info.get_default(call_default_factory=True)
        kind = _kind(info, name)
        yield Setting(
            name=name,
            label=_label(key),
            kind=kind,
            value=_data_to_text(values.get(key, default), lines=kind == "long"),
            default=_data_to_text(default, lines=kind == "long"),
            help=_help(info),
            unit=str(extra.get("unit", "")),
            source=str(extra.get("source", "")),
            choices=tuple(envs.names()) if name == ENVIRONMENT else _choices(info),
            integer=_bare(info.annotation) is int,
            optional=_optional(info.annotation),
            error=errors.get(name, ""),
        )


def _label(key: str) -> str:
    text = LABELS.get(key, key.replace("_", " "))
    return text if text.startswith(("α", "ε", "γ", "λ")) else text[:1].upper() + text[1:]


def _is_model(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _optional(annotation: Any) -> bool:
    return type(None) in get_args(annotation)


def _bare(annotation: Any) -> Any:
    """The annotation without None."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [part for part in get_args(annotation) if part is not type(None)]
        return rest[0] if len(rest) == 1 else annotation
    return annotation


def _choices(info: FieldInfo) -> tuple[str, ...]:
    bare = _bare(info.annotation)
    return tuple(str(choice) for choice in get_args(bare)) if get_origin(bare) is Literal else ()


def _kind(info: FieldInfo, name: str) -> Literal["number", "text", "long", "switch", "choice"]:
    bare = _bare(info.annotation)
    if name == ENVIRONMENT or get_origin(bare) is Literal:
        return "choice"
    if bare is bool:
        return "switch"
    if bare in (int, float):
        return "number"
    return "long" if name in TEXTAREA_FIELDS else "text"


def _help(info: FieldInfo) -> str:
    """The field's help with its limits."""
    limits = []
    for limit in info.metadata:
        match limit:
            case annotated_types.Ge(ge=bound):
                limits.append(f"at least {_bound(bound)}")
            case annotated_types.Gt(gt=bound):
                limits.append(f"above {_bound(bound)}")
            case annotated_types.Le(le=bound):
                limits.append(f"at most {_bound(bound)}")
            case annotated_types.Lt(lt=bound):
                limits.append(f"below {_bound(bound)}")
    help = info.description or ""
    return f"{help.rstrip('.')} ({', '.join(limits)})." if limits else help


def _bound(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _data_to_text(value: Any, *, lines: bool = False) -> str:
    """The text of a field. `lines`: each entry of a list on its own, in YAML."""
    match value:
        case None:
            return ""
        case bool():
            return "on" if value else ""
        case float():
            return f"{value:g}" if float(f"{value:g}") == value else repr(value)
        case list() if lines:
            return "\n".join(f"- {_entry_to_text(part)}" for part in value)
        case list() | tuple():
            return ", ".join(str(part) for part in value)
        case dict():
            return ", ".join(f"{key}={_data_to_text(part)}" for key, part in value.items())
    return str(value)


def _entry_to_text(entry: Any) -> str:
    """An entry of a list of settings as one line of YAML, without those that are empty."""
    if isinstance(entry, dict):
        entry = {key: value for key, value in entry.items() if value not in (None, {})}
    text: str = yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf)
    return text.strip().removesuffix("...").strip()


def _text_to_entries(text: str) -> Any:
    """The data of a list written in YAML; the text itself if it is not YAML."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: an impossible date
        return text


def _pairs(text: str) -> dict[str, str]:
    """The data of `key=value, key=value`."""
    pairs = (part.partition("=") for part in text.split(",") if part.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _text_to_data(post: Mapping[str, str], name: str, info: FieldInfo) -> Any:
    text = post.get(name, "").strip()
    bare = _bare(info.annotation)
    if bare is bool:
        return name in post
    if get_origin(bare) is list and _is_model(get_args(bare)[0]) and text:
        return _text_to_entries(text)
    if get_origin(bare) in (list, tuple):
        return [part.strip() for part in text.split(",") if part.strip()]
    if get_origin(bare) is dict:
        return _pairs(text)
    if text == "" and (_optional(info.annotation) or name.startswith(f"{SETTINGS}.")):
        return None
    return text


def _put(data: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split(".")
    for key in path:
        data = data.setdefault(key, {})
    data[last] = value


def _entry_of(where: str) -> str:
    """Which entry of a list of settings a problem is about, as the beginning of its sentence; or nothing."""
    entry = re.fullmatch(r"environment\.mix\.(\d+)\.?(.*)", where)
    return f"entry {int(entry[1]) + 1}{', ' if entry[2] else ''}{entry[2]}: " if entry else ""


def _field_of(where: str, text: str) -> str:
    """The field of a problem: its location, or the first field named in the message."""
    fields = set(names())
    if where in fields:
        return where
    holder = where
    while holder := holder.rpartition(".")[0]:
        if holder in fields:  # one entry of a field that holds several
            return holder
    mentioned = [word.group() for word in re.finditer(r"[a-z_]+\.[a-z_0-9]+", text) if word.group() in fields]
    if mentioned:
        return mentioned[0]
    return f"{where}.name" if f"{where}.name" in fields else where
