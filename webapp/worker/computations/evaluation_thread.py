"""Answers to questions about evaluations, in a thread of the worker: they take minutes, and let short ones pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from trainer.journal.attempt_lines import lines_of_evaluation
from trainer.journal.branches import END_TYPES, Advanced, Answer, Failed, Question, Restored
from trainer.journal.computed_tokens import weights_of
from webapp.branching.asked_evaluation import as_sent_to_sampler
from webapp.branching.evaluation_actions import do_store_answer, waiting_evaluation_questions
from webapp.branching.models import EvaluationQuestion
from webapp.core.database import database_now
from webapp.runs import worker_requests
from webapp.runs.models import Run
from webapp.worker.computations.attempt_folder import Weights
from webapp.worker.computations.job_ends import ComputationWithdrawn
from webapp.worker.computations.sampler_loop import Arriving, SamplerLoop, Unanswered

SHOWN_SECONDS = 1.0
"""Interval in which progress is stored for open pages."""


class EvaluationAnswers(SamplerLoop[EvaluationQuestion]):
    """The thread of one worker for questions about evaluations."""

    NAME, FOLDER = "Evaluations", "evaluation-samplers"
    SECONDS = 3600.0

    def pending(self) -> list[EvaluationQuestion]:
        return list(waiting_evaluation_questions(database_now()))

    def weights_of(self, request: EvaluationQuestion) -> tuple[Run, int]:
        return request.run, weights_of("eval", request.iteration)

    def journal_run(self, request: EvaluationQuestion) -> Run:
        return request.run

    def lines(self, request: EvaluationQuestion) -> Callable[[bytes], bool]:
        return lines_of_evaluation(request.iteration, request.suite)

    def sent(self, request: EvaluationQuestion, folder: str) -> Question:
        return as_sent_to_sampler(request, folder)

    def arriving(self, request: EvaluationQuestion, weights: Weights) -> Arriving:
        return _ArrivingSummary(request, weights)


class _ArrivingSummary:
    """Stores progress and answer of one question as they arrive."""

    def __init__(self, request: EvaluationQuestion, weights: Weights) -> None:
        self.is_over = False
        self._request = request
        self._columns: dict[str, Any] = {"used_checkpoint": weights.iteration}
        self._shown = 0.0

    def take(self, answers: list[Answer]) -> None:
        """Take in answers. Raises ComputationFailed, ComputationWithdrawn."""
        for answer in answers:
            if getattr(answer, "id", "") == self._request.slug:
                self._note(answer)
        if self._columns and not self.is_over and time.monotonic() - self._shown > SHOWN_SECONDS:
            if not worker_requests.do_report(self._request, **self._columns):
                raise ComputationWithdrawn
            self._columns, self._shown = {}, time.monotonic()

    def _note(self, answer: Answer) -> None:
        match answer:
            case Restored():
                self._columns["encoded"] = answer.tokens == "encoded"
            case Advanced():
                done, total = (min(max(number, 0), 2**31 - 1) for number in (answer.done, answer.total))
                self._columns |= {"done": done, "total": total}
            case Failed():
                raise Unanswered(answer.message)
            case _ if answer.type in END_TYPES:
                self._end(answer)

    def _end(self, answer: Answer) -> None:
        result = answer.model_dump(mode="json", exclude={"id"})
        if answer.type == "cancelled" or not do_store_answer(self._request, result, **self._columns):
            raise ComputationWithdrawn
        self.is_over = True
