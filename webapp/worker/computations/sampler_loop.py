"""The thread of a worker that lets sampler processes answer questions of one kind, one at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from pydantic import ValidationError

from trainer.journal.branches import END_TYPES, Answer, Cancel, Question
from webapp.branching.models import BranchQuestion, EvaluationQuestion
from webapp.branching.wake import Wake
from webapp.runs.models import Run, Worker
from webapp.runs.run_files import RunFiles
from webapp.worker import parent_guard
from webapp.worker.computations import attempt_folder
from webapp.worker.computations.attempt_folder import Weights
from webapp.worker.computations.branch_lines import BranchLines
from webapp.worker.computations.computation_limits import ComputationLimits
from webapp.worker.computations.job_ends import ComputationFailed, ComputationWithdrawn, WorkerStops
from webapp.worker.computations.request_loop import RequestLoop
from webapp.worker.computations.sampler_process import Command, SamplerProcess, sampler_command
from webapp.worker.computations.warm_samplers import WarmSampler, WarmSamplers

POLL_SECONDS = 0.1
REST_SECONDS = 5.0
"""Interval in which questions are noticed if Redis does not say that one was asked."""
CANCEL_SECONDS = 5.0

Q = TypeVar("Q", BranchQuestion, EvaluationQuestion)


class Unanswered(ComputationFailed):
    """The sampler itself says that there is no answer; it takes further questions."""

    def __init__(self, message: str) -> None:
        text = message.strip() or "there is no answer"
        super().__init__(f"{text[:1].upper()}{text[1:2000].rstrip('.')}.")


class Arriving(Protocol):
    """Stores the answers to one question as they arrive."""

    is_over: bool

    def take(self, answers: list[Answer]) -> None:
        """Take in answers. Raises ComputationFailed, ComputationWithdrawn."""


class SamplerLoop(RequestLoop[Q], Generic[Q]):
    """The thread of one worker for questions of one kind."""

    SECONDS: float | None = None
    """Maximum duration of an answer; None: as of other computations."""

    def __init__(self, worker: str, command: Command = sampler_command, pace: float = 1.0) -> None:
        super().__init__(worker, pace)
        self._samplers = WarmSamplers(self.root, command)
        self._wake = Wake(self.end)

    # -- what each kind of questions defines ---------------------------------------------------------------------------

    def pending(self) -> list[Q]:
        """Return the questions without a live worker, the oldest first."""
        raise NotImplementedError

    def begin(self, request: Q) -> None:
        """Prepare the rows of the answer. Raises ComputationWithdrawn."""

    def forget(self, request: Q) -> None:
        """Delete what is unfinished of an answer that does not come."""

    def journal_run(self, request: Q) -> Run:
        """Return the run whose journal has what the question is about."""
        raise NotImplementedError

    def lines(self, request: Q) -> Callable[[bytes], bool]:
        """Return the lines of that journal that the answer needs."""
        raise NotImplementedError

    def branch(self, request: Q) -> BranchLines | None:
        """Return what is at the end of an attempt that is a branch; None if it is none."""
        return None

    def sent(self, request: Q, folder: str) -> Question:
        """Return the question as the process reads it. Raises ValidationError."""
        raise NotImplementedError

    def arriving(self, request: Q, weights: Weights) -> Arriving:
        """Return what stores the answers."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------------------------

    def clean(self) -> None:
        """Delete the folders that lost workers left; the processes of other workers may still use theirs."""
        for name in self.root.folders():
            files = RunFiles(self.root.path_to(name))
            if parent_guard.stale_trainer(files.pid) is None:
                files.delete()

    def waiting(self) -> list[Q]:
        self._samplers.drop_idle()
        return self.pending()

    def rest(self) -> None:
        self._wake.wait(REST_SECONDS * self.pace)

    def close(self) -> None:
        self._samplers.close()
        self._wake.close()

    def carry_out(self, request: Q, worker: Worker, weights: Weights) -> None:
        def keep_alive() -> None:
            self.keep_alive(request)

        self.begin(request)
        run = self.weights_of(request)[0]
        sampler = self._samplers.get(run, weights, worker.slots, keep_alive)
        folder = f"attempts/{request.slug}"
        try:
            attempt_folder.prepare_journal(
                self.journal_run(request),
                self.lines(request),
                sampler.inside,
                folder,
                keep_alive,
                self.branch(request),
            )
            self._ask(request, sampler, folder, weights)
        except BaseException as error:
            self._give_up(request, sampler, error, run, weights)
            raise
        finally:
            sampler.used = time.monotonic()
            sampler.inside.remove(folder)

    def _ask(self, request: Q, sampler: WarmSampler, folder: str, weights: Weights) -> None:
        try:
            question = self.sent(request, str(sampler.inside.path_to(folder)))
        except ValidationError as error:
            raise ComputationFailed(f"The question is not valid: {error.errors()[0]['msg']}.") from None
        process = sampler.process
        process.send(question)
        arriving, limits = self.arriving(request, weights), ComputationLimits(process, self.SECONDS)
        while not arriving.is_over:
            self.keep_alive(request)
            limits.check()
            arriving.take(process.receive(POLL_SECONDS))

    def _give_up(self, request: Q, sampler: WarmSampler, error: BaseException, run: Run, weights: Weights) -> None:
        """Cancel the question; a process that does not stop, or that failed, is ended."""
        asked_to_stop = isinstance(error, ComputationWithdrawn | WorkerStops)
        goes_on = isinstance(error, Unanswered) or (asked_to_stop and _cancelled(sampler.process, request.slug))
        if not goes_on:
            self._samplers.drop(run, weights)
        if not isinstance(error, ComputationWithdrawn):
            self.forget(request)


def _cancelled(process: SamplerProcess, identity: str) -> bool:
    """Cancel the question. Returns False if the process does not stop."""
    deadline = time.monotonic() + CANCEL_SECONDS
    try:
        process.send(Cancel(id=identity))
        while time.monotonic() < deadline:
            for answer in process.receive(POLL_SECONDS):
                if getattr(answer, "id", "") == identity and answer.type in END_TYPES:
                    return True
    except ComputationFailed:
        pass
    return False
