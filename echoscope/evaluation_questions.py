"""Questions to policies about evaluations: what correcting misread positions wins, and the influence of thoughts.

question = site.evaluation_questions.ask(run, "corrections")
for question in site.evaluation_questions.watch(question.slug):
    print(question.message)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from echoscope import models
from echoscope.questions import AskedQuestions

EvaluationQuestionKind = Literal["corrections", "thoughts"]


class EvaluationQuestions(AskedQuestions[models.EvaluationQuestion]):
    """Questions about evaluations of runs. All methods raise the exceptions of echoscope.errors."""

    MODEL, PATH = models.EvaluationQuestion, "/questions"

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

    def list(self, run: str) -> Iterator[models.EvaluationQuestion]:
        """Yield questions about the evaluations of a run, newest first, fetched page by page during iteration."""
        for item in self._transport.items(f"/runs/{run}/questions", {"limit": 100}):
            yield models.EvaluationQuestion.model_validate(item)
