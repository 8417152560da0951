"""The decorator that hands a function to Numba. Compiled code is kept on disk, so a machine compiles it once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """The function as machine code, made for the types of its first arguments; other threads go on while it runs."""
    try:
        return cast(Function, njit(cache=True, nogil=True)(function))
    except RuntimeError:  # nowhere to keep it: every process compiles for itself
        return cast(Function, njit(nogil=True)(function))
