"""Turns failures of calls from a training loop into warnings, each given only once, instead of exceptions."""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

from echoscope.recording.json_values import as_text

PACKAGE = "echoscope."
Method = TypeVar("Method", bound=Callable[..., Any])


NOT_REPEATED = " This warning is not repeated."


class OnceWarnings:
    """Warnings of one recorder or integration, each emitted once."""

    def __init__(self) -> None:
        self._emitted: set[str] = set()

    def once(self, key: str, message: str) -> None:
        """Warn, unless a warning with this key was emitted before."""
        if key not in self._emitted:
            self._emitted.add(key)
            warn(message)

    def failed(self, method: str, error: Exception) -> None:
        """Warn that a call has recorded nothing."""
        self.once(_key(method, error), _message(method, error))


class NotBegun(Exception):
    """The journal of a run could not be begun, so that nothing can be recorded. The text is a warning."""


def warn(message: str) -> None:
    """Emit a RuntimeWarning that names the line outside this package from which it was called.

    Where filters turn warnings into errors, it is printed instead, as training must go on.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=level)
    except Exception:  # noqa: BLE001 - of a filter, or of another program's way to show warnings
        with contextlib.suppress(Exception):  # stderr may be closed
            sys.stderr.write(f"RuntimeWarning: {message}\n")


def harmless_or(otherwise: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> Callable[[Method], Method]:
    """Decorate methods so that they return `otherwise(self, args, kwargs)`, with a warning, instead of raising.

    Their objects have `warnings`, an OnceWarnings.
    """

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def called(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 - whatever it is, the training of the caller goes on
                self.warnings.failed(method.__name__.lstrip("_"), error)
                return otherwise(self, args, kwargs)

        return cast(Method, called)

    return decorate


def _nothing(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    return None


harmless = harmless_or(_nothing)
"""Decorator of methods that return None instead of raising."""


def _key(method: str, error: Exception) -> str:
    if isinstance(error, NotBegun):
        return str(error)
    return f"{type(error).__name__} {error.errno}" if isinstance(error, OSError) else f"{method} {type(error).__name__}"


def _message(method: str, error: Exception) -> str:
    if isinstance(error, NotBegun):
        return str(error)
    if isinstance(error, OSError):
        return (
            f"{method}() recorded nothing: {as_text(error)}. Training goes on. Make room, or repair the folder of the "
            f"run: later calls are then recorded again.{NOT_REPEATED}"
        )
    return (
        f"{method}() recorded nothing: {as_text(error) or 'it failed'} ({type(error).__name__}). Training goes on. "
        f"Compare the arguments with docs/other-trainers.md.{NOT_REPEATED}"
    )
