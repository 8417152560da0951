"""Answers to questions about attempts, in a thread of the worker (docs/branching.md)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.db.models import F

from trainer.journal.attempt_lines import lines_about, lines_beside
from trainer.journal.branches import (
    END_TYPES,
    Advanced,
    Answer,
    Failed,
    Partial,
    Played,
    Question,
    Restored,
)
from webapp.branching.actions import waiting_questions
from webapp.branching.asked import as_sent, wanted_weights
from webapp.branching.lineage import recorded_attempt
from webapp.branching.models import BranchQuestion
from webapp.core.database import database_now
from webapp.ingest.branch_rows import BranchesRefused, do_begin_branches, do_forget_unfinished, do_store_played
from webapp.runs import worker_requests
from webapp.runs.models import Run
from webapp.worker.computations.attempt_folder import Weights
from webapp.worker.computations.branch_lines import BranchLines
from webapp.worker.computations.job_ends import ComputationFailed, ComputationWithdrawn
from webapp.worker.computations.sampler_loop import Arriving, SamplerLoop, Unanswered

SHOWN_SECONDS = 0.4
"""Interval in which partial responses are stored for open pages."""
MAX_PARTIAL = 2000
"""Characters of a partial response, its end."""
MAX_OTHERS = 64
"""Attempts from which the thought of another one is taken."""


class QuestionAnswers(SamplerLoop[BranchQuestion]):
    """The thread of one worker for questions about attempts."""

    NAME, FOLDER = "Branching", "samplers"

    def pending(self) -> list[BranchQuestion]:
        return list(waiting_questions(database_now()))

    def weights_of(self, request: BranchQuestion) -> tuple[Run, int]:
        return request.run_with_weights, wanted_weights(request)

    def begin(self, request: BranchQuestion) -> None:
        if request.kind == BranchQuestion.Kind.BRANCH and not do_begin_branches(request):
            raise ComputationWithdrawn

    def forget(self, request: BranchQuestion) -> None:
        do_forget_unfinished(request)

    def journal_run(self, request: BranchQuestion) -> Run:
        return request.trajectory.run

    def lines(self, request: BranchQuestion) -> Callable[[bytes], bool]:
        attempt = recorded_attempt(request.trajectory)
        if request.kind != BranchQuestion.Kind.THOUGHTS:
            return lines_about(attempt.key)
        return lines_beside(attempt.key, attempt.iteration, attempt.split, MAX_OTHERS)

    def branch(self, request: BranchQuestion) -> BranchLines | None:
        return BranchLines.of(request.trajectory)

    def sent(self, request: BranchQuestion, folder: str) -> Question:
        return as_sent(request, folder)

    def arriving(self, request: BranchQuestion, weights: Weights) -> Arriving:
        return _Arriving(request, weights)


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
                raise Unanswered(answer.message)
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
