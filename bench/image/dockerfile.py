"""The instructions of a Dockerfile, as far as this project's uses them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from string import Template

UNDERSTOOD = frozenset({"RUN", "COPY", "WORKDIR", "ENV", "ARG", "USER", "VOLUME", "EXPOSE", "CMD"})


@dataclass(frozen=True)
class Instruction:
    """One instruction, its variables still as written."""

    name: str
    value: str


@dataclass(frozen=True)
class Stage:
    """Instructions between one FROM and the next."""

    name: str
    base: str
    """Another stage's name, or an image."""
    instructions: list[Instruction] = field(default_factory=list)


def logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, those that end in a backslash joined with the next."""
    joined = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        joined += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        if joined.strip():
            yield " ".join(joined.split())
        joined = ""


def parse(text: str, arguments: Mapping[str, str]) -> dict[str, Stage]:
    """Stages by name, in their order.

    Args:
        text: a Dockerfile.
        arguments: values of build arguments, which win over the defaults in the file.

    Raises:
        ValueError: an instruction that is not understood, or one before the first FROM that is not ARG.
    """
    stages: dict[str, Stage] = {}
    known: dict[str, str] = {}
    stage: Stage | None = None
    for line in logical_lines(text):
        name, _, value = line.partition(" ")
        if name == "FROM":
            base, _, given = Template(value).substitute(known).partition(" AS ")
            stage = Stage(given or base, base)
            stages[stage.name] = stage
        elif name not in UNDERSTOOD:
            raise ValueError(f"{name} is not understood: add it to bench/image, or write the Dockerfile without it.")
        elif stage is not None:
            stage.instructions.append(Instruction(name, value))
        elif name == "ARG":
            argument, _, default = value.partition("=")
            known[argument] = arguments.get(argument, default)
        else:
            raise ValueError(f"{name} before the first FROM: only ARG can stand there.")
    return stages


def assignments(value: str) -> dict[str, str]:
    """The variables of an ENV instruction; those in the values are still as written."""
    return dict(pair.split("=", 1) for pair in shlex.split(value))


def copied(value: str) -> tuple[str | None, list[str], str]:
    """The stage (None: the build context), sources and target of a COPY instruction."""
    *words, target = value.split()
    stage = next((word.removeprefix("--from=") for word in words if word.startswith("--from=")), None)
    return stage, [word for word in words if not word.startswith("--")], target


def command_of(value: str) -> str:
    """The shell command of a RUN instruction, without its mounts."""
    return re.sub(r"^(--mount=\S+ )+", "", value)


def needed(stages: Mapping[str, Stage], target: str) -> list[str]:
    """Names of the stages that a target builds on or copies from, in the order of the file."""
    wanted: set[str] = set()
    waiting = [target]
    while waiting:
        name = waiting.pop()
        if name in wanted or name not in stages:
            continue
        wanted.add(name)
        sources = [copied(step.value)[0] for step in stages[name].instructions if step.name == "COPY"]
        waiting += [stages[name].base, *(source for source in sources if source)]
    return [name for name in stages if name in wanted]
