"""Array implementation of the bandits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envs.bandit import HIGH_REWARD, Bandit, BanditSettings
from envs.base import EnvSettings, TextEnv
from envs.support.rng import Stream
from envs.vector.arrays import ArrayBatch, Outcome
from envs.vector.batch_env import Options, Rows
from envs.vector.batch_rng import BatchRng

_LOW, _HIGH = 0, 1


class BanditBatch(ArrayBatch):
    """All bandits with a low and a high arm. Index i is the arm that the row's text names at place i."""

    env_class = Bandit

    def __init__(self, kind: type[TextEnv], settings: EnvSettings, count: int) -> None:
        super().__init__(kind, settings, count)
        assert isinstance(settings, BanditSettings)
        self._arms = (settings.low_name, settings.high_name)
        for arm, name in enumerate(self._arms):  # codes 0 and 1 are places, 2 and 3 the arms of these names
            self._codes |= {name: 2 + arm, name.lower(): 2 + arm}
        self._low_reward, self._probability = settings.low_reward, settings.high_probability
        low, high = self._arms
        self._sentences = np.array(
            [
                f"Arms: {low}, {high}",
                f"Arms: {high}, {low}",
                f"{low}: {settings.low_reward} points",
                f"{high}: 0.0 points",
                f"{high}: {HIGH_REWARD} points",
            ],
            np.object_,
        )
        self._sentence = np.zeros(count, np.intp)
        self._first = np.zeros(count, np.intp)
        self._rng = BatchRng(count)

    def _begin(self, rows: Rows, options: Sequence[Options]) -> None:
        for same, env in self._starts(rows, options):
            self._first[same] = self._sentence[same] = self._arms.index(env.env_spec.actions[0])
        self._rng.seed(rows.tolist(), [self.dynamics_seeds[row] for row in rows.tolist()], Stream.DYNAMICS)

    def _act(self, rows: Rows, codes: Rows) -> Outcome:
        high = np.where(codes >= 2, codes - 2, (self._first[rows] + codes) % 2) == _HIGH
        rewards = np.full(len(rows), self._low_reward)
        rewards[high] = HIGH_REWARD * (self._rng.uniform(rows[high]) < self._probability)
        self._sentence[rows] = np.where(high, 3 + (rewards > 0), 2)
        always = np.ones(len(rows), np.bool_)
        return Outcome(rewards, effective=always, terminated=always, success=high)

    def texts(self) -> list[str]:
        texts: list[str] = self._sentences[self._sentence].tolist()
        return texts
