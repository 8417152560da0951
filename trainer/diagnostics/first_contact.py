"""Notice about a policy that cannot use its prompt yet: the evidence in its first responses, and advice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainer.journal.events import Turn
from trainer.metrics.statistics import mean
from trainer.policy.chat_format import ANSWER_END
from trainer.rollout.trajectory import Trajectory

MOST = 0.5
"""Share of turns, or of characters, above which there is a notice about the first responses."""
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)|\n")


@dataclass(frozen=True)
class FirstContact:
    """Shares from 0 to 1 of the turns in a policy's first responses.

    Attributes:
        turns: number of turns.
        copied_thoughts: share with a thought that repeats words of the format line.
        copied_answers: share with an answer that repeats words of the format line and contains no existing action.
        acting: share with an action that was executed.
        after_answer: share of the responses' characters that follow the answer.
    """

    turns: int
    copied_thoughts: float
    copied_answers: float
    acting: float
    after_answer: float


def measure(played: Iterable[tuple[Trajectory, str]]) -> FirstContact | None:
    """Measure the first responses; None without any.

    Args:
        played: trajectories, each with the format line of its prompt (`trainer.rollout.prompts.format_line`).
    """
    turns = [(turn, _split_words(line)) for trajectory, line in played for turn in trajectory.turns]
    if not turns:
        return None
    written = sum(len(turn.response) for turn, _ in turns)
    return FirstContact(
        turns=len(turns),
        copied_thoughts=mean(_repeats(turn.thought, line) for turn, line in turns) or 0.0,
        copied_answers=mean(not _acts(turn) and _repeats(turn.answer, line) for turn, line in turns) or 0.0,
        acting=mean(_acts(turn) for turn, _ in turns) or 0.0,
        after_answer=sum(len(_after_answer(turn.response)) for turn, _ in turns) / max(written, 1),
    )


def first_contact_notice(contact: FirstContact, *, line: str, warms_up: bool = False) -> str | None:
    """Say in a few sentences what is wrong with the first responses and what helps; None if nothing is wrong.

    Args:
        line: value of `rollout.format_line`.
        warms_up: whether the run imitates demonstrations next.
    """
    problems = list(_problems(contact))
    if not problems:
        return None
    advice = []
    if contact.after_answer > MOST and line == "placeholders":
        advice.append("any other rollout.format_line than placeholders ends them there")
    if max(contact.copied_thoughts, contact.copied_answers) > MOST and line in ("placeholders", "paper"):
        advice.append("rollout.format_line=example shows the model an answer with content instead")
    if contact.acting <= MOST or contact.copied_thoughts > MOST:
        advice.append(
            "the steps on demonstrations that follow (sft.warmup_steps) teach the form of an answer"
            if warms_up
            else "if the environment has a solver, sft.warmup_steps=16 or more lets the run begin by imitating it"
        )
    helps = f" What helps: {'; '.join(advice)}." if advice else ""
    return f"Of the first {contact.turns} responses, {'; '.join(problems)}.{helps}"


def _problems(contact: FirstContact) -> Iterator[str]:
    if contact.copied_thoughts > MOST:
        yield f"{contact.copied_thoughts:.0%} have a thought copied from the prompt's description of the format"
    if contact.copied_answers > MOST:
        yield f"{contact.copied_answers:.0%} have an answer copied from there, which is no action"
    if contact.acting == 0:
        yield "none contains an action that the environment accepts"
    if contact.after_answer > MOST:
        yield f"{contact.after_answer:.0%} of the text follows the answer, where nothing reads it"


def _acts(turn: Turn) -> bool:
    return any(action.status == "executed" for action in turn.actions)


def _split_words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _repeats(text: str, line: Sequence[str]) -> bool:
    """True if the line contains each sentence of a text literally; models also combine sentences of two examples."""
    sentences = [words for sentence in _SENTENCE_END.split(text) if (words := _split_words(sentence))]
    return bool(sentences) and all(_contains(line, words) for words in sentences)


def _contains(line: Sequence[str], words: Sequence[str]) -> bool:
    return any(list(line[start : start + len(words)]) == words for start in range(len(line)))


def _after_answer(response: str) -> str:
    return response.partition(ANSWER_END)[2].strip()
