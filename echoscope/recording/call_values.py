"""Converts arguments of recording calls to values that a site accepts, with one warning for each change."""

from __future__ import annotations

import functools
import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from echoscope.recording.harmless import NOT_REPEATED, OnceWarnings
from echoscope.recording.json_values import as_json, as_text, number_in
from echoscope.recording.splits import Split, split_stated
from echoscope.recording.task_seed import task_seed

MAX_NAME = 100
"""Maximum length of names of environments, suites, metrics and terms that a site stores."""
MAX_COUNT = 2**31 - 1
MAX_ITERATION = 10**9
"""Larger numbers are time stamps, which would stretch the axis of every curve."""
MAX_SEED = 2**63 - 1


Method = TypeVar("Method", bound=Callable[..., Any])


def _or(otherwise: Callable[..., Any]) -> Callable[[Method], Method]:
    """Decorate conversions so that a value that fails where it is read becomes `otherwise(…)`, with a warning.

    The call then records its other arguments. `otherwise` receives the same arguments as the conversion.
    """

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def called(self: CallValues, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 - objects of other programs
                name = args[0] if len(args) > 1 else method.__name__
                self.warn(
                    name,
                    f"{name} of {self._call}() fails where it is read ({type(error).__name__}: {as_text(error)}), and "
                    "its text or nothing is recorded in its place.",
                )
                return otherwise(*args, **kwargs)

        return cast(Method, called)

    return decorate


class CallValues:
    """Converts the arguments of one call.

    Args:
        call: name of the method, for warnings.
    """

    def __init__(self, warnings: OnceWarnings, call: str) -> None:
        self._warnings, self._call = warnings, call

    def warn(self, key: str, message: str) -> None:
        """Warn about an argument, once for each argument of a method and `key`."""
        self._warnings.once(f"{self._call} {key}", f"{message}{NOT_REPEATED}")

    @_or(lambda name, value: as_text(value))
    def text(self, name: str, value: Any) -> str:
        """Return a text; None is empty, like the content of messages that only call tools."""
        if value is None or isinstance(value, str):
            return as_text(value or "")
        self._changed(name, value, "its text is recorded: pass a text")
        if isinstance(value, Mapping | list | tuple):
            return json.dumps(as_json(value), ensure_ascii=False)
        return as_text(value)

    def short(self, name: str, value: Any, limit: int = MAX_NAME) -> str:
        """Return a name of at most `limit` characters."""
        text = self.text(name, value)
        if len(text) <= limit:
            return text
        self.warn(name, f"{name} of {self._call}() has {len(text):,} characters: {limit} of them are recorded.")
        return text[: limit - 1] + "…"

    @_or(lambda *_: None)
    def number(self, name: str, value: Any) -> float | None:
        """Return a finite number; None if unknown."""
        if value is None:
            return None
        number = number_in(value)
        if number is None:
            self._changed(name, value, "nothing is recorded in its place: pass a number, or None where it is not known")
        elif not math.isfinite(number):
            self.warn(name, f"{name} of {self._call}() is {number} and is recorded as not known.")
        else:
            return number
        return None

    @_or(lambda *_: {})
    def numbers(self, name: str, values: Any) -> dict[str, float]:
        """Return the finite numbers of a mapping, with their names as texts."""
        if not isinstance(values, Mapping):
            if values is not None:
                self._changed(name, values, "nothing is recorded in its place: pass a mapping of names to numbers")
            return {}
        converted = {
            self.short(f"a name in {name}", key): self.number(f"{name}[{_shown(key)}]", values[key]) for key in values
        }
        return {key: number for key, number in converted.items() if number is not None}

    @_or(lambda *_: None)
    def whole(self, name: str, value: Any, lowest: int, highest: int = MAX_COUNT) -> int | None:
        """Return a whole number in the range; None if unknown."""
        number = self.number(name, value)
        if number is None:
            return None
        if number.is_integer() and lowest <= (exact := _exact(value, number)) <= highest:
            return exact
        self.warn(
            name,
            f"{name} of {self._call}() is {number:g} and is recorded as not known: pass a whole number from {lowest} "
            f"to {highest:,}.",
        )
        return None

    @_or(lambda *_: None)
    def seed(self, value: Any) -> int | None:
        """Return a seed of 64 bits. Other numbers and texts are hashed, so that equal ones are the same task."""
        if value is None:
            return None
        number = number_in(value)
        if number is not None and number.is_integer() and -MAX_SEED <= (exact := _exact(value, number)) <= MAX_SEED:
            return exact
        self._changed("seed", value, "a hash of it is recorded: pass a whole number of 64 bits")
        return task_seed(json.dumps(as_json(value)))

    @_or(lambda *_: None)
    def flag(self, name: str, value: Any) -> bool | None:
        """Return True or False, also for values of numpy and torch and for numbers; None if unknown."""
        if value is None or isinstance(value, bool):
            return value
        number = number_in(value)
        if number in (0.0, 1.0):
            return bool(number)
        self.warn(
            name, f"{name} of {self._call}() is {_shown(value)} and is recorded as not known: pass True, False or None."
        )
        return None

    @_or(lambda name, value, known, nearest="": nearest or known[0])
    def choice(self, name: str, value: Any, known: Sequence[str], nearest: str = "") -> str:
        """Return one of the known texts; for any other value the nearest, by default the first."""
        if isinstance(value, str) and value in known:
            return str.__str__(value)
        nearest, others = nearest or known[0], ", ".join(map(repr, known))
        self.warn(
            name, f"{name} of {self._call}() is {_shown(value)} and is recorded as {nearest!r}: pass one of {others}."
        )
        return nearest

    @_or(lambda _: "train")
    def split(self, value: Any) -> Split:
        """Return the split, also for other names such as “validation”."""
        split = split_stated(value) if isinstance(value, str) else None
        return split or ("eval" if self.choice("split", value, ("train", "eval")) == "eval" else "train")

    def _changed(self, name: str, value: Any, what: str) -> None:
        self.warn(name, f"{name} of {self._call}() is of type {type(value).__name__}, and {what}.")


def _exact(value: Any, number: float) -> int:
    """Return the whole number of a value, since a float is only exact up to 2^53."""
    try:
        return operator.index(value)
    except TypeError:
        return int(number)


def _shown(value: Any) -> str:
    return repr(as_text(value)[:50])
