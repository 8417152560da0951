"""Finds installed environments of verifiers, loads them with arguments, and rejects unplayable ones.

The package is imported when the first environment is loaded, which takes seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from envs.adapters.variant_arguments import from_key
from envs.adapters.verifiers_tools import API, get_toolsets, refusal_of_tools
from envs.support.global_random import OwnRandomness
from envs.support.rng import Stream

_SHIPPED = {"textarena": "games of TextArena; needs the argument game"}
"""Environments within verifiers; its other environments run in containers or on servers."""
_REQUIREMENT = re.compile(r"verifiers\b", re.IGNORECASE)
_NAME = re.compile(r"[\w.-]{1,100}")
_LOADERS = ("Taskset", "load_environment")
"""Names in the module of an environment, in today's API and in the API before version 0.4."""
_HARNESSES = ("", "bash", "null")
"""Programs of an agent that pass on the environment's messages and tools; `bash` adds a shell, which is not offered."""


@lru_cache(maxsize=1)
def installed() -> dict[str, str]:
    """Return installed environments by id, with a short text on each: packages that require verifiers."""
    texts = dict(_environments())
    return dict(sorted(texts.items())) | _SHIPPED


def _environments() -> Iterator[tuple[str, str]]:
    for package in distributions():
        name = package.metadata["Name"] or ""
        if not (
            _NAME.fullmatch(name) and any(_REQUIREMENT.match(requirement) for requirement in package.requires or ())
        ):
            continue
        source = _source(name)
        if source and any(word in source for word in _LOADERS):
            yield name, _about(package)


def _source(name: str) -> str:
    """Return the source of the module that verifiers imports for an id, without importing it; "" if there is none."""
    module = find_spec(name.replace("-", "_").replace(".", "_").lower())
    if module is None or module.origin is None or not module.origin.endswith(".py"):
        return ""
    return Path(module.origin).read_text(encoding="utf-8", errors="replace")


def _about(package: Distribution) -> str:
    summary = " ".join((package.metadata["Summary"] or "").split())
    return summary[:80] or f"version {package.version}"


@lru_cache(maxsize=32)
def load(identity: str, arguments: str) -> Any:
    """Load the environment with these arguments, in the form of `as_key`. Raises ValueError if it cannot be played."""
    vf = import_module(API)
    if "Taskset" not in (source := _source(identity)) and identity not in _SHIPPED:
        old = "load_environment, which the installed one does not call" if source else "no module"
        raise ValueError(
            f"{identity} is written for verifiers before 0.4 (it has {old}): look for a newer version of {identity}"
        )
    try:
        config, kind = vf.taskset_config_type(identity), vf.env_config_type(identity)
    except Exception as error:  # noqa: BLE001 - code of other packages: its error is the reason of the refusal
        cause = error.__cause__ or error  # for a missing dependency, verifiers reports the environment as missing
        reason = f"{type(cause).__name__}: {' '.join(str(cause).split())[:300]}"
        raise ValueError(f"{identity} cannot be imported: {reason}") from None
    try:
        env = vf.load_environment(vf.resolve_env_config(_nested(vf, identity, from_key(arguments), config, kind)))
        reason = _refusal(vf, identity, env)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{identity} refuses the arguments: {where + ': ' if where else ''}{first['msg']}") from None
    except ValueError:
        raise
    except Exception as error:  # noqa: BLE001 - code of other packages: its error is the reason of the refusal
        raise ValueError(f"{identity} cannot be loaded: {type(error).__name__}: {error}") from None
    if reason:
        raise ValueError(f"{identity} cannot be played: {reason}")
    return env


def _nested(
    vf: Any, identity: str, arguments: Mapping[str, Any], config: type[BaseModel], kind: type[BaseModel]
) -> dict[str, Any]:
    """Sort arguments into the parts of the configuration that have them: the taskset, its tasks, the environment."""
    task = config.model_fields["task"].default
    fields = {
        "taskset": _own_fields(config, vf.TasksetConfig),
        "task": _own_fields(type(task), vf.TaskConfig),
        "env": _own_fields(kind, vf.EnvConfig),
    }
    chosen: dict[str, dict[str, Any]] = {part: {} for part in fields}
    for name, value in arguments.items():
        part = next((part for part, names in fields.items() if name in names), None)
        if part is None:
            choices = sorted(set().union(*fields.values()))
            choice = f"choose among {', '.join(choices)}" if choices else "it takes none"
            raise ValueError(f"arguments: {identity} has no {name!r}: {choice}")
        chosen[part][name] = value
    return {**chosen["env"], "taskset": {**chosen["taskset"], "task": chosen["task"], "id": identity}}


def _own_fields(model: type[BaseModel], base: type[BaseModel]) -> set[str]:
    """Return fields that an argument may set: fields of the environment, unless they have fields or name a file."""
    return {
        name
        for name, field in model.model_fields.items()
        if name not in base.model_fields and not re.search(r"Path|Config|Judge", str(field.annotation))
    }


def _refusal(vf: Any, identity: str, env: Any) -> str:
    """Explain why an environment needs more than text messages and tool calls; empty if it does not."""
    tasks = type(env.taskset).task_type()
    seats = get_seats(env)
    if len(seats) != 1:
        return f"it has {len(seats)} agents ({', '.join(seats)}), and a run trains one"
    (seat,) = seats.values()
    own_harness = vf.default_harness_id(identity)
    for harness in (own_harness, seat.harness.id if seat.harness is not None else ""):
        if harness not in _HARNESSES:
            return f"it brings its own program for the agent ({harness})"
    if tasks.NEEDS_CONTAINER:
        return "it needs a container"
    for toolset in get_toolsets(env):
        if reason := refusal_of_tools(toolset):
            return reason
    if any(hasattr(hook, "intercept") for kind in tasks.__mro__ for hook in vars(kind).values()):
        return "it rewrites the requests to the model"
    if judge := _judge(vf, env, tasks):
        return f"{judge} judges the answers, a model behind an API, and processes of environments get no key"
    return ""


def get_seats(env: Any) -> dict[str, Any]:
    """Return the agents of an environment by name, each with its configuration."""
    agent = import_module(API).AgentConfig
    return {name: value for name, value in env.config if isinstance(value, agent)}


def _judge(vf: Any, env: Any, tasks: type[Any]) -> str:
    """Return the name of the setting or attribute with a model that judges; empty without any."""
    for part in (env.config, env.taskset.config, env.taskset.config.task):
        for name, value in part:
            if any(isinstance(entry, vf.JudgeConfig) for entry in (value if isinstance(value, list) else [value])):
                return str(name)
    for kind in tasks.__mro__:
        for name, value in vars(kind).items():
            if isinstance(value, vf.Judge) or (isinstance(value, type) and issubclass(value, vf.Judge)):
                return name
    return ""


@lru_cache(maxsize=8)
def questions(identity: str, arguments: str, limit: int) -> tuple[Any, ...]:
    """Return the first `limit` tasks of an environment. Raises ValueError if its data cannot be loaded."""
    env = load(identity, arguments)
    try:
        with OwnRandomness(0, Stream.START).installed():
            tasks = tuple(islice(iter(env.taskset), limit))
    except Exception as error:  # noqa: BLE001 - as above
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise ValueError(f"the questions of {identity} cannot be loaded: {reason}") from None
    if not tasks:
        raise ValueError(f"{identity} has no questions with these arguments")
    return tasks
