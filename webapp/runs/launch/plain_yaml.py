"""YAML of users: plain data without aliases, which can multiply values, and without deep nesting."""

from __future__ import annotations

from typing import Any

import yaml
from yaml.nodes import Node

from webapp.core.middleware import nul

MAX_DEPTH = 50
MAX_LENGTH = 200_000
"""Characters."""


class _PlainLoader(yaml.SafeLoader):
    """Refuses aliases (&name, *name) and nesting beyond MAX_DEPTH."""

    depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise yaml.MarkedYAMLError(
                problem="names such as &name and *name are not accepted: write each value where it is used",
                problem_mark=event.start_mark,
            )
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem=f"more than {MAX_DEPTH} levels of nesting", problem_mark=event.start_mark
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def load(text: str) -> Any:
    """Load a YAML text. Raises ValueError with a message for its author."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"it is longer than {MAX_LENGTH:,} characters")
    try:
        data = yaml.load(text, _PlainLoader)
    except yaml.YAMLError as error:
        raise ValueError(f"this is not valid YAML: {error}") from None
    except RecursionError:
        raise ValueError("this is not valid YAML: it is nested too deeply") from None
    if nul.in_json(data):
        raise ValueError("it contains a NUL character, which no text here can hold")
    return data
