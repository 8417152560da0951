"""Sampler processes that a worker keeps for the next question about the same weights."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field

from trainer.config.hosted import HostedConfig
from webapp.branching.policies import hosted_model, policy_problem
from webapp.core import ids
from webapp.runs.models import Run
from webapp.runs.run_files import RunFiles
from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.worker.computations import attempt_folder
from webapp.worker.computations.attempt_folder import KeepAlive, Weights
from webapp.worker.computations.computation_start import start
from webapp.worker.computations.job_ends import ComputationFailed
from webapp.worker.computations.sampler_process import Command, SamplerProcess

KEPT = 2
"""Processes that wait for questions."""
IDLE_SECONDS = 120.0
"""Until a process without a question is ended: each holds a model in memory."""
_START = b'"type":"run_started"'


@dataclass
class WarmSampler:
    """A process, with the name of its folder."""

    process: SamplerProcess
    name: str
    used: float = field(default_factory=time.monotonic)

    @property
    def inside(self) -> UntrustedFolder:
        return self.process.files.inside


def _allowed_endpoint(run: Run) -> HostedConfig | None:
    """Return the hosted model that is a run's policy; None for others. Raises ComputationFailed if it is forbidden."""
    if (hosted := hosted_model(run)) is not None and (problem := policy_problem(run)):
        raise ComputationFailed(f"The policy of this run cannot play: {problem}.")
    return hosted


class WarmSamplers:
    """The processes of one worker; the least recently used one is ended for another."""

    def __init__(self, root: UntrustedFolder, command: Command) -> None:
        self._root, self._command = root, command
        self._warm: OrderedDict[tuple[int, int], WarmSampler] = OrderedDict()

    def get(self, run: Run, weights: Weights, slots: int, keep_alive: KeepAlive) -> WarmSampler:
        """Return a process with the weights, started if there is none. Raises ComputationFailed."""
        key = (run.pk, weights.iteration)
        known = self._warm.get(key)
        if known is not None and known.process.exit_status() is None:
            self._warm.move_to_end(key)
            known.used = time.monotonic()
            return known
        self.drop(run, weights)
        while len(self._warm) >= KEPT:
            self._end(next(iter(self._warm)))
        # unique among all kinds of questions and workers: a second process would end the first as a stale one
        name = f"{run.slug}-{weights.iteration}-{ids.slug()}"
        self._root.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root.make_folder(name)
        files = RunFiles(self._root.path_to(name))
        try:
            attempt_folder.prepare_journal(run, lambda line: _START in line, files.inside, "", keep_alive)
            attempt_folder.prepare_weights(run, weights, files.inside, keep_alive)
            command = self._command(files, weights.iteration)
            process = start(SamplerProcess, files, command, slots, hosted=_allowed_endpoint(run))
        except BaseException:
            self._root.remove(name)
            raise
        self._warm[key] = WarmSampler(process, name)
        return self._warm[key]

    def drop(self, run: Run, weights: Weights) -> None:
        """End the process with these weights, if there is one."""
        if (run.pk, weights.iteration) in self._warm:
            self._end((run.pk, weights.iteration))

    def drop_idle(self) -> None:
        """End the processes that had no question for IDLE_SECONDS."""
        now = time.monotonic()
        for key in [key for key, warm in self._warm.items() if now - warm.used > IDLE_SECONDS]:
            self._end(key)

    def close(self) -> None:
        """End all processes."""
        for key in list(self._warm):
            self._end(key)

    def _end(self, key: tuple[int, int]) -> None:
        warm = self._warm.pop(key)
        warm.process.close()
        self._root.remove(warm.name)
