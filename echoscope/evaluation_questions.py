"""Questions to policies about evaluations: what correcting misread positions wins, and the influence of thoughts.

question = site.evaluation_questions.ask(run, "corrections")
for question in site.evaluation_questions.watch(question.slug):
    print(question.message)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Literal

from echoscope import models
from echoscope.questions import ANSWERED
from echoscope.transport import Transport

EvaluationQuestionKind = Literal["corrections", "thoughts"]


class EvaluationQuestions:
    """Questions about evaluations of runs. All methods raise the exceptions of echoscope.errors."""

    def __init__(self, transport: Transport, sleep: Callable[[float], None] = time.sleep) -> None:
        self._transport = transport
        self._sleep = sleep

    def ask(
        self,
        run: str,
        kind: EvaluationQuestionKind = "corrections",
        *,
        suite: str | None = None,
        iteration: int | None = None,
        samples: int | None = None,
        attempts: int | None = None,
    ) -> models.EvaluationQuestion:
        """Ask a question; a worker answers it within minutes. The same question again returns the first one.

        Raises Conflict if nothing can be asked about the evaluation, Invalid for an impossible value.

        Args:
            kind: corrections: what putting the first false position of lost attempts right wins; thoughts: the
                influence of thoughts on the next actions.
            suite: None: the suite by which the run is judged.
            iteration: of the evaluation; None: the newest one.
            samples: continuations of each kind for every attempt, or next actions after each thought; None: the site
                chooses.
            attempts: of more attempts, so many are drawn; None: the site chooses.
        """
        body = {"kind": kind, "suite": suite, "iteration": iteration, "samples": samples, "attempts": attempts}
        answer = self._transport.send("POST", f"/runs/{run}/questions", body=body, repeatable=True)
        return models.EvaluationQuestion.model_validate(answer.json())

    def get(self, question: str) -> models.EvaluationQuestion:
        """Return a question with its answer."""
        answer = self._transport.send("GET", f"/questions/{question}")
        return models.EvaluationQuestion.model_validate(answer.json())

    def list(self, run: str) -> Iterator[models.EvaluationQuestion]:
        """Yield questions about the evaluations of a run, newest first, fetched page by page during iteration."""
        for item in self._transport.items(f"/runs/{run}/questions", {"limit": 100}):
            yield models.EvaluationQuestion.model_validate(item)

    def watch(self, question: str, *, every: float = 2.0) -> Iterator[models.EvaluationQuestion]:
        """Yield the question now and after each change, until it is answered or has failed."""
        previous: models.EvaluationQuestion | None = None
        while True:
            now = self.get(question)
            if now != previous:
                yield now
                previous = now
            if now.state in ANSWERED:
                return
            self._sleep(every)

    def delete(self, question: str) -> None:
        """Cancel a question, or delete it with its answer."""
        self._transport.send("DELETE", f"/questions/{question}")
