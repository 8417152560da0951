"""Registry of the normalisations of trajectory rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

Grouping = Literal["state", "environment", "batch"]
Method = Literal["identity", "mean", "mean_std", "asym_clip"]


class Normalization(NamedTuple):
    """What is done to rewards, and which trajectories are compared: of one state, of one environment, or all."""

    method: Method
    grouping: Grouping


def _name(method: Method, grouping: Grouping) -> str:
    return method if grouping == "state" else f"{grouping}_{method}"


NORMALIZATIONS: Mapping[str, Normalization] = {
    "identity": Normalization("identity", "state"),
    **{
        _name(method, grouping): Normalization(method, grouping)
        for grouping in get_args(Grouping)
        for method in get_args(Method)
        if method != "identity"
    },
}
"""Values of `algorithm.reward_normalization`. Source: the published code of RAGEN has all of them."""
