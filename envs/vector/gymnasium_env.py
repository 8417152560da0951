"""Batches as Gymnasium vector environments: `gymnasium.make_vec("echoscope/<name>-v0", num_envs=…)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from envs.vector.batch_env import Rows, group_seeds
from envs.vector.batch_registry import make_batch

Texts = tuple[str, ...]
Infos = dict[str, Any]


class TextVectorEnv(VectorEnv[Texts, Sequence[str | int], NDArray[Any]]):
    """`num_envs` environments of one kind; observations are a tuple of texts, actions one name or index per row.

    With `members=1` the rows behave exactly like Gymnasium's SyncVectorEnv of single environments, in each autoreset
    mode: a row that ended is reset in the next step, which ignores its action and has reward 0 (NEXT_STEP, the
    default); at once, with `final_obs` and `final_info` in the infos (SAME_STEP); or never (DISABLED).

    With `members=N` each N consecutive rows are a group: they share the initial state but not the dynamics. Seeds are
    per group then, and autoreset is disabled, since the rows of a group start together.

    With autoreset disabled a row that has ended does not change: its action is not executed (`valid` is False), its
    reward is 0, and it stays ended until `reset`, with or without `options["reset_mask"]`.
    `batch` is the `BatchEnv`; its `step` plays turns of several actions.
    """

    def __init__(
        self,
        name: str,
        num_envs: int = 1,
        settings: dict[str, Any] | None = None,
        *,
        members: int = 1,
        autoreset_mode: AutoresetMode | str | None = None,
        render_mode: str | None = "ansi",
    ) -> None:
        if render_mode not in (None, "ansi"):
            raise ValueError(f"{name} renders as text: render_mode must be 'ansi', not {render_mode!r}")
        if members < 1 or num_envs % members:
            raise ValueError(f"{num_envs} rows cannot be divided into groups of {members}")
        usual = AutoresetMode.NEXT_STEP if members == 1 else AutoresetMode.DISABLED
        self.autoreset_mode = usual if autoreset_mode is None else AutoresetMode(autoreset_mode)
        if members > 1 and self.autoreset_mode != AutoresetMode.DISABLED:
            raise ValueError("the rows of a group start together: take autoreset_mode='Disabled', or members=1")
        self.batch = make_batch(name, num_envs, settings)
        self.num_envs, self.members, self.render_mode = num_envs, members, render_mode
        self.metadata = {**self.batch.single.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = self.batch.single.observation_space
        self.single_action_space = self.batch.single.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        groups = num_envs // members
        self._first_seeds: list[int | None] = [None] * groups
        self._generators: list[np.random.Generator | None] = [None] * groups
        self._over = np.zeros(num_envs, np.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Texts, Infos]:
        """Start every row, or those of `options["reset_mask"]` (num_envs,).

        Args:
            seed: one per row (with `members`: per group), or the first of consecutive ones. None continues with seeds
                derived from the last given ones.
            options: for every row, as in a single environment; `dynamics_seeds` is a list with one per row.
        """
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        dynamics = options.pop("dynamics_seeds", None)
        rows = np.arange(self.num_envs) if mask is None else self._masked(mask)
        groups = rows[:: self.members] // self.members
        count = len(self._first_seeds)
        if isinstance(seed, int | np.integer):
            seed = [int(seed) + group for group in range(count)]
        seeds: Sequence[int | None] = [None] * count if seed is None else seed
        if len(seeds) != count:
            raise ValueError(f"{len(seeds)} seeds for {count} {'rows' if self.members == 1 else 'groups'}")
        if dynamics is not None:
            if len(dynamics) != self.num_envs:
                raise ValueError(f"{len(dynamics)} dynamics seeds for {self.num_envs} rows")
            dynamics = [dynamics[row] for row in rows.tolist()]
        for group in groups.tolist():
            if seeds[group] is not None:
                self._first_seeds[group], self._generators[group] = seeds[group], None
        self._start(rows, [seeds[group] for group in groups.tolist()], dynamics, options)
        return tuple(self.batch.texts()), _infos(rows, self.num_envs, self._facts(rows))

    def step(
        self, actions: Sequence[str | int] | NDArray[Any]
    ) -> tuple[Texts, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """One action per row, by name or index; an unknown one changes nothing and is reported as `valid=False`."""
        if len(actions) != self.num_envs:
            raise ValueError(f"{len(actions)} actions for {self.num_envs} rows: give one for each row")
        restarting = self._over & (self.autoreset_mode == AutoresetMode.NEXT_STEP)
        turns = [[] if over else [action] for over, action in zip(restarting.tolist(), actions, strict=True)]
        turn = self.batch.step(turns)
        everyone = np.arange(self.num_envs)
        facts: Infos = {"success": turn.success}
        for key, values in (("effective", turn.effective), ("valid", turn.valid), ("actual", turn.actual)):
            facts[key] = values[:, 0] if values.shape[1] else self._facts(everyone)[key]
        rewards = turn.rewards.sum(axis=1)
        over = turn.terminated | turn.truncated
        infos: Infos = {}
        if self.autoreset_mode == AutoresetMode.NEXT_STEP:
            ended, over = np.flatnonzero(restarting), over & ~restarting
            turn.terminated[ended], turn.truncated[ended] = False, False
        elif self.autoreset_mode == AutoresetMode.SAME_STEP:
            ended = np.flatnonzero(over)
            over = np.zeros_like(over)
            for row in ended.tolist():
                final = {key: _plain(values[row]) for key, values in facts.items()}
                infos = self._add_info(infos, {"final_obs": turn.texts[row], "final_info": final}, row)
        else:
            ended = everyone[:0]
        if len(ended):
            self._start(ended, [None] * len(ended), None, {})
            for key, values in self._facts(ended).items():
                facts[key][ended] = values
        self._over = over
        return (
            tuple(self.batch.texts() if len(ended) else turn.texts),
            rewards,
            turn.terminated,
            turn.truncated,
            infos | _infos(everyone, self.num_envs, facts),
        )

    def render(self) -> Texts:
        """The texts of all rows."""
        return tuple(self.batch.texts())

    def _start(
        self, rows: Rows, seeds: list[int | None], dynamics: Sequence[int] | None, options: dict[str, Any]
    ) -> None:
        """Reset these rows; a group without a seed gets the next derived one."""
        groups = rows[:: self.members] // self.members
        chosen = [self._draw(group) if seed is None else seed for group, seed in zip(groups, seeds, strict=True)]
        starts = chosen
        if self.members > 1:
            starts, chances = group_seeds(chosen, self.members)
            dynamics = chances if dynamics is None else dynamics
        self.batch.reset(starts, dynamics, options=[options] * len(rows), rows=rows)
        self._over[rows] = False

    def _draw(self, group: int) -> int:
        """The next derived seed of a row or group, as in a single environment that is reset without one."""
        generator = self._generators[group]
        if generator is None:
            generator, _ = seeding.np_random(self._first_seeds[group])
            self._generators[group] = generator
        return int(generator.integers(2**62))

    def _masked(self, mask: NDArray[np.bool_]) -> Rows:
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise TypeError(f"reset_mask must be a NumPy array of {self.num_envs} booleans")
        whole = mask.reshape(-1, self.members)
        if not mask.any() or (whole.any(axis=1) != whole.all(axis=1)).any():
            raise ValueError("reset_mask must choose at least one row, and only whole groups")
        return np.flatnonzero(mask)

    def _facts(self, rows: Rows) -> Infos:
        """Info values of these rows after a reset."""
        nothing = np.zeros(len(rows), np.bool_)
        return {
            "success": self.batch.success[rows],
            "effective": nothing,
            "valid": ~nothing,
            "actual": np.full(len(rows), None, np.object_),
        }


def make_for_gymnasium(num_envs: int, name: str, **kwargs: Any) -> TextVectorEnv:
    """Entry point of `gymnasium.make_vec("echoscope/<name>-v0", num_envs=…, settings=…, members=…)`."""
    return TextVectorEnv(name, num_envs, **kwargs)


def _infos(rows: Rows, count: int, facts: Infos) -> Infos:
    """Info values as Gymnasium's arrays over all rows, each with a mask of the rows that have it."""
    infos: Infos = {}
    for key, values in facts.items():
        infos[key] = np.full(count, None, np.object_) if values.dtype == np.object_ else np.zeros(count, values.dtype)
        infos[key][rows] = values
        infos[f"_{key}"] = np.zeros(count, np.bool_)
        infos[f"_{key}"][rows] = True
    return infos


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
