"""Answers to questions about attempts, in a thread of the worker (docs/branching.md)."""

from __future__ import annotations

import time
from typing import Any

from django.db.models import F
from pydantic import ValidationError

from trainer.journal.attempt_lines import lines_about, lines_beside
from trainer.journal.branches import (
    END_TYPES,
    Advanced,
    Answer,
    Cancel,
    Failed,
    Partial,
    Played,
    Restored,
)
from webapp.branching.actions import waiting_questions
from webapp.branching.asked import as_sent, wanted_weights
from webapp.branching.lineage import recorded_attempt
from webapp.branching.models import BranchQuestion
from webapp.branching.wake import Wake
from webapp.core.database import database_now
from webapp.ingest.branch_rows import BranchesRefused, do_begin_branches, do_forget_unfinished, do_store_played
from webapp.runs import worker_requests
from webapp.runs.models import Run, Worker
from webapp.trajectories.models import Trajectory
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
SHOWN_SECONDS = 0.4
"""Interval in which partial responses are stored for open pages."""
CANCEL_SECONDS = 5.0
MAX_PARTIAL = 2000
"""Characters of a partial response, its end."""
MAX_OTHERS = 64
"""Attempts from which the thought of another one is taken."""


class QuestionAnswers(RequestLoop[BranchQuestion]):
    """The thread of one worker."""

    NAME, FOLDER = "Branching", "samplers"

    def __init__(self, worker: str, command: Command = sampler_command, pace: float = 1.0) -> None:
        super().__init__(worker, pace)
        self._samplers = WarmSamplers(self.root, command)
        self._wake = Wake(self.end)

    def clean(self) -> None:
        """Delete the folders that a lost worker left, with its processes."""
        for name in self.root.folders():
            self.root.remove(name)

    def waiting(self) -> list[BranchQuestion]:
        self._samplers.drop_idle()
        return list(waiting_questions(database_now()))

    def weights_of(self, request: BranchQuestion) -> tuple[Run, int]:
        return request.run_with_weights, wanted_weights(request)

    def rest(self) -> None:
        self._wake.wait(REST_SECONDS * self.pace)

    def close(self) -> None:
        self._samplers.close()
        self._wake.close()

    def carry_out(self, request: BranchQuestion, worker: Worker, weights: Weights) -> None:
        def keep_alive() -> None:
            self.keep_alive(request)

        if request.kind == BranchQuestion.Kind.BRANCH and not do_begin_branches(request):
            raise ComputationWithdrawn
        run = request.run_with_weights
        sampler = self._samplers.get(run, weights, worker.slots, keep_alive)
        folder = f"attempts/{request.slug}"
        try:
            self._write_journal(request, sampler, folder)
            self._ask(request, sampler, folder, weights)
        except BaseException as error:
            self._give_up(request, sampler, error, run, weights)
            raise
        finally:
            sampler.used = time.monotonic()
            sampler.inside.remove(folder)

    def _write_journal(self, request: BranchQuestion, sampler: WarmSampler, folder: str) -> None:
        attempt = request.trajectory
        attempt_folder.prepare_journal(
            attempt.run,
            _lines(request, recorded_attempt(attempt)),
            sampler.inside,
            folder,
            lambda: self.keep_alive(request),
            BranchLines.of(attempt),
        )

    def _ask(self, request: BranchQuestion, sampler: WarmSampler, folder: str, weights: Weights) -> None:
        try:
            question = as_sent(request, str(sampler.inside.path_to(folder)))
        except ValidationError as error:
            raise ComputationFailed(f"The question is not valid: {error.errors()[0]['msg']}.") from None
        process = sampler.process
        process.send(question)
        arriving, limits = _Arriving(request, weights), ComputationLimits(process)
        while not arriving.is_over:
            self.keep_alive(request)
            limits.check()
            arriving.take(process.receive(POLL_SECONDS))

    def _give_up(
        self, request: BranchQuestion, sampler: WarmSampler, error: BaseException, run: Run, weights: Weights
    ) -> None:
        """Cancel the question; a process that does not stop, or that failed, is ended."""
        asked_to_stop = isinstance(error, ComputationWithdrawn | WorkerStops)
        goes_on = isinstance(error, _Unanswered) or (asked_to_stop and _cancelled(sampler.process, request))
        if not goes_on:
            self._samplers.drop(run, weights)
        if not isinstance(error, ComputationWithdrawn):
            do_forget_unfinished(request)


class _Unanswered(ComputationFailed):
    """The sampler itself says that there is no answer; it takes further questions."""


class _Arriving:
    """Stores the answers to one question as they arrive."""

    def __init__(self, request: BranchQuestion, weights: Weights) -> None:
        self.is_over = False
        self._request, self._weights = request, weights
        self._columns: dict[str, Any] = {}
        self._partial: dict[str, dict[str, Any]] = {}
        self._shown = 0.0

    def take(self, answers: list[Answer]) -> None:
        """Take in answers. Raises ComputationFailed, ComputationWithdrawn."""
        own = [answer for answer in answers if getattr(answer, "id", "") == self._request.slug]
        played = [answer for answer in own if isinstance(answer, Played)]
        try:
            if played and not do_store_played(self._request, played):
                raise ComputationWithdrawn
        except BranchesRefused as error:
            raise ComputationFailed(f"The answer of the policy's process is not valid: {error}.") from None
        for answer in own:
            self._note(answer)
        if self._columns and (self.is_over or time.monotonic() - self._shown > SHOWN_SECONDS):
            self._store()

    def _note(self, answer: Answer) -> None:
        match answer:
            case Restored():
                self._columns |= {"encoded": answer.tokens == "encoded", "used_checkpoint": self._weights.iteration}
            case Advanced():
                self._columns["done"] = min(answer.done, self._request.total)
            case Partial():
                text = answer.text[-MAX_PARTIAL:].replace("\0", "")
                self._partial[str(answer.branch)] = {"turn": answer.turn, "text": text}
                self._columns["partial"] = self._partial
            case Played():
                self._partial.pop(str(answer.branch), None)
                self._columns["partial"] = self._partial
            case Failed():
                raise _Unanswered(_as_sentence(answer.message))
            case _ if answer.type in END_TYPES:
                self._end(answer)

    def _end(self, answer: Answer) -> None:
        if answer.type == "cancelled":
            raise ComputationWithdrawn
        self.is_over = True
        self._columns |= {
            "state": BranchQuestion.State.DONE,
            "result": answer.model_dump(mode="json", exclude={"id"}),
            "partial": {},
            "done": F("total"),
            "answered_at": database_now(),
            "lease": "",
        }

    def _store(self) -> None:
        if not worker_requests.do_report(self._request, **self._columns):
            raise ComputationWithdrawn
        self._columns, self._shown = {}, time.monotonic()


def _lines(request: BranchQuestion, attempt: Trajectory) -> Any:
    if request.kind != BranchQuestion.Kind.THOUGHTS:
        return lines_about(attempt.key)
    return lines_beside(attempt.key, attempt.iteration, attempt.split, MAX_OTHERS)


def _cancelled(process: SamplerProcess, request: BranchQuestion) -> bool:
    """Cancel the question. Returns False if the process does not stop."""
    deadline = time.monotonic() + CANCEL_SECONDS
    try:
        process.send(Cancel(id=request.slug))
        while time.monotonic() < deadline:
            for answer in process.receive(POLL_SECONDS):
                if getattr(answer, "id", "") == request.slug and answer.type in END_TYPES:
                    return True
    except ComputationFailed:
        pass
    return False


def _as_sentence(message: str) -> str:
    text = message.strip() or "there is no answer"
    return f"{text[:1].upper()}{text[1:2000].rstrip('.')}."
