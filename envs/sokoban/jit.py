"""Decorator that compiles a function with Numba. Compiled code is cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile the function on its first call for these argument types; it runs without Python's lock."""
    try:
        return cast(Function, njit(cache=True, nogil=True)(function))
    except RuntimeError:  # no cache folder: every process compiles for itself
        return cast(Function, njit(nogil=True)(function))
