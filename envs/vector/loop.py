"""Batch of single environments, stepped one after the other, for all kinds without an array implementation."""

from __future__ import annotations

from collections.abc import Sequence

from envs.base import EnvSettings, TextEnv
from envs.vector.batch_env import BatchEnv, BatchTurn, Options, Rows, Turns, as_lists


class LoopBatch(BatchEnv):
    """Any environment. Without named actions, actions must be texts."""

    env_class = TextEnv
    RULES = ()

    def __init__(self, kind: type[TextEnv], settings: EnvSettings, count: int) -> None:
        super().__init__(kind, settings, count)
        self.environments = [kind(settings) for _ in range(count)]

    def _begin(self, rows: Rows, options: Sequence[Options]) -> None:
        for row, option in zip(rows.tolist(), options, strict=True):
            chance = {"dynamics_seed": self.dynamics_seeds[row]}
            _, info = self.environments[row].reset(seed=self.seeds[row], options=option | chance)
            self.success[row] = info["success"]

    def step(self, actions: Turns) -> BatchTurn:
        self._check(actions)
        turns = as_lists(actions)
        turn = BatchTurn.empty(self.count, max(map(len, turns)))
        for row, actions_of_row in enumerate(turns):
            for number, action in enumerate(actions_of_row):
                if self.terminated[row] or self.truncated[row]:
                    break
                turn.executed[row, number] = True
                word = self._word(row, action)
                if word is not None:
                    self._play(turn, row, number, word)
        return self._finished(turn)

    def _word(self, row: int, action: str | int) -> str | None:
        """The action as text; None for an invalid index."""
        if isinstance(action, str):
            return str(action)
        names = self.environments[row].env_spec.actions
        if not names:
            raise ValueError(f"{action} is an index, but here any text is an action: give texts")
        return names[action] if 0 <= action < len(names) else None

    def _play(self, turn: BatchTurn, row: int, number: int, word: str) -> None:
        _, reward, self.terminated[row], self.truncated[row], info = self.environments[row].step(word)
        self.success[row] = info["success"]
        turn.rewards[row, number] = reward
        turn.valid[row, number], turn.effective[row, number] = info["valid"], info["effective"]
        self.taken[row] += info["valid"]
        turn.actual[row, number] = info.get("actual")

    def texts(self) -> list[str]:
        return [env.render() for env in self.environments]
