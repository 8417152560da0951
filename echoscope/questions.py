"""Questions to policies about recorded trajectories: play on from a position, value by play, influence of thoughts.

question = site.questions.ask(trajectory, turn=2, samples=16)
for question in site.questions.watch(question.slug):
    print(question.message)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Generic, Literal, TypeVar

from echoscope import models
from echoscope.transport import Transport, changes

QuestionKind = Literal["branch", "value", "thoughts"]
ANSWERED = ("done", "failed")
"""Final states of a question."""
Asked = TypeVar("Asked", models.QuestionDetail, models.EvaluationQuestion)


class AskedQuestions(Generic[Asked]):
    """Questions of one kind: reading, watching and deleting them."""

    MODEL: type[Asked]
    PATH = ""

    def __init__(self, transport: Transport, sleep: Callable[[float], None] = time.sleep) -> None:
        self._transport = transport
        self._sleep = sleep

    def get(self, question: str) -> Asked:
        """Return a question with its answer, and with its branches so far."""
        return self.MODEL.model_validate(self._transport.send("GET", f"{self.PATH}/{question}").json())

    def watch(self, question: str, *, every: float = 1.0) -> Iterator[Asked]:
        """Yield the question now and after each change, until it is answered or has failed."""
        return changes(partial(self.get, question), lambda now: now.state in ANSWERED, self._sleep, every)

    def delete(self, question: str) -> None:
        """Cancel a question, or delete it with its answer and its branches."""
        self._transport.send("DELETE", f"{self.PATH}/{question}")


class Questions(AskedQuestions[models.QuestionDetail]):
    """Questions about trajectories. Turns are counted from 0. All methods raise the exceptions of echoscope.errors."""

    MODEL, PATH = models.QuestionDetail, "/branches"

    def ask(
        self,
        trajectory: str,
        kind: QuestionKind = "branch",
        *,
        turn: int | None = None,
        samples: int = 8,
        temperature: float | None = None,
        change: Mapping[str, str] | None = None,
        fresh_luck: bool = False,
        weights_run: str | None = None,
        checkpoint: int | None = None,
    ) -> models.QuestionDetail:
        """Ask a question; a worker answers it. The same question again returns the first one, with its answer.

        Raises Conflict if nothing can be asked about the trajectory, Invalid for an impossible value.

        Args:
            trajectory: its id. A branch is asked about like a recorded trajectory, but up to the turn from which it was
                played on it is the trajectory that it continues, about which the question is asked then.
            kind: branch: play on from a turn; value: the share solved from every turn; thoughts: whether they matter.
            turn: of branch: play on before the response of this turn.
            temperature: 0 is greedy; None: as the trajectory was sampled.
            change: of branch: a new text of the turn's state, thought or answer, as in {"thought": "…"}.
            fresh_luck: of branch: other randomness of the environment in each branch.
            weights_run: run of the weights; None: the trajectory's run.
            checkpoint: finished iterations of the weights, or the nearest kept ones; None: the weights that sampled it,
                or the newest ones of another run.
        """
        body = {
            "trajectory": trajectory,
            "kind": kind,
            "turn": turn,
            "samples": samples,
            "temperature": temperature,
            "change": dict(change or {}),
            "fresh_luck": fresh_luck,
            "weights_run": weights_run,
            "checkpoint": checkpoint,
        }
        answer = self._transport.send("POST", "/branches", body=body, repeatable=True)
        return models.QuestionDetail.model_validate(answer.json())

    def list(self, trajectory: str) -> Iterator[models.Question]:
        """Yield questions about a trajectory, newest first, fetched page by page during iteration."""
        for item in self._transport.items(f"/trajectories/{trajectory}/branches", {"limit": 100}):
            yield models.Question.model_validate(item)
