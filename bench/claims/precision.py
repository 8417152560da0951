"""Precision and recall of the claims that are read in thoughts, on the labelled texts in tests/data/claims.

Sentences are written for the purpose; thoughts were sampled from language models, and are labelled unchanged.

Precision is the share of found claims with a correct place and verdict, recall the share of labelled claims found.
Both have Wilson's 95 % intervals, as if claims were independent.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from envs import registry
from envs.base import Board, Claim
from trainer.metrics.statistics import wilson_interval

FOLDER = Path(__file__).parents[2] / "tests" / "data" / "claims"
ENVIRONMENTS = {
    "Sokoban": "sokoban",
    "FrozenLake": "frozen_lake",
    "Bandit": "bandit",
    "Countdown": "countdown",
    "WebShop": "webshop",
}
"""Environment → file of its sentences."""
THOUGHTS = "thoughts.jsonl"


@dataclass(frozen=True)
class Sentence:
    """A labelled text: its board, and the place and verdict of each claim in it."""

    text: str
    board: Board
    labels: tuple[tuple[int, int, bool], ...]


@dataclass(frozen=True)
class Score:
    """Counts of an environment.

    `wrong` claims were found but not labelled so; `missed` claims were labelled but not found.
    """

    environment: str
    sentences: int
    right: int
    wrong: int
    missed: int
    errors: tuple[str, ...] = ()

    @property
    def found(self) -> int:
        return self.right + self.wrong

    @property
    def labelled(self) -> int:
        return self.right + self.missed

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.labelled if self.labelled else 1.0


def read_sentences(environment: str) -> list[Sentence]:
    """Return the labelled sentences of an environment. Raises ValueError for a label that its text does not contain."""
    boards = TypeAdapter(dict[str, Board]).validate_json((FOLDER / "boards.json").read_bytes())
    lines = (FOLDER / f"{ENVIRONMENTS[environment]}.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [Sentence(record["text"], boards[record["board"]], _labels(record)) for record in records]


def read_thoughts() -> dict[str, list[Sentence]]:
    """Return environment → labelled thoughts of language models, each with its board. Raises as read_sentences()."""
    thoughts: dict[str, list[Sentence]] = {}
    board = TypeAdapter[Board](Board)
    for line in (FOLDER / THOUGHTS).read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        thought = Sentence(record["text"], board.validate_python(record["board"]), _labels(record))
        thoughts.setdefault(record["environment"], []).append(thought)
    return thoughts


def _labels(record: dict[str, Any]) -> tuple[tuple[int, int, bool], ...]:
    """Return place and verdict of each label; a repeated label refers to the next such text."""
    places: list[tuple[int, int, bool]] = []
    for verdict in ("true", "false"):
        ends: dict[str, int] = {}
        for label in record.get(verdict, []):
            start = record["text"].find(label, ends.get(label, 0))
            if start < 0:
                raise ValueError(f"the label {label!r} is not in its text {record['text']!r}")
            ends[label] = start + len(label)
            places.append((start, ends[label], verdict == "true"))
    return tuple(sorted(places))


def measure(environment: str, sentences: Sequence[Sentence] | None = None) -> Score:
    """Compare the claims read with the labels: a claim is right if it overlaps a label with the same verdict.

    `sentences` default to the sentences in the environment's file.
    """
    right = wrong = missed = 0
    errors = []
    sentences = read_sentences(environment) if sentences is None else sentences
    for sentence in sentences:
        open_labels = list(sentence.labels)
        for claim in registry.read_claims(environment, sentence.text, sentence.board) or []:
            label = next((label for label in open_labels if _fits(claim, label)), None)
            if label is None:
                wrong += 1
                errors.append(f"wrong   {_shown(sentence.text, claim.start, claim.end, claim.true)}")
            else:
                right += 1
                open_labels.remove(label)
        missed += len(open_labels)
        errors += [f"missed  {_shown(sentence.text, *label)}" for label in open_labels]
    return Score(environment, len(sentences), right, wrong, missed, tuple(errors))


def _fits(claim: Claim, label: tuple[int, int, bool]) -> bool:
    start, end, true = label
    return claim.true == true and start < claim.end and claim.start < end


def _shown(text: str, start: int, end: int, true: bool) -> str:
    return f"{str(true).lower()}: {text[start:end]!r} in {text!r}"


def main() -> None:
    """Print the table; optionally the errors, and the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the figures here")
    parser.add_argument("--errors", action="store_true", help="print each wrong and each missed claim")
    options = parser.parse_args()
    scores = [measure(environment) for environment in ENVIRONMENTS]
    thoughts = [measure(environment, labelled) for environment, labelled in read_thoughts().items()]
    _print("sentences", scores, errors=options.errors)
    print()
    _print("thoughts", thoughts, errors=options.errors)
    if options.json:
        figures = {"sentences": scores, "thoughts": thoughts}
        rows = {name: [_row(score) for score in results] for name, results in figures.items()}
        options.json.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")


def _row(score: Score) -> dict[str, Any]:
    return asdict(score) | {"precision": score.precision, "recall": score.recall}


def _share(right: int, total: int) -> str:
    """Format a share with its interval; a dash for none."""
    low, high = wilson_interval(right, total)
    return f"{right / total:.1%} ({low:.1%} to {high:.1%})" if total else "–"


def _print(texts: str, scores: Sequence[Score], *, errors: bool) -> None:
    print(f"{'environment':<12} {texts:>9} {'claims':>7} {'wrong':>6} {'missed':>7} {'precision':>22} {'recall':>22}")
    for score in scores:
        print(
            f"{score.environment:<12} {score.sentences:>9} {score.labelled:>7} {score.wrong:>6} {score.missed:>7} "
            f"{_share(score.right, score.found):>22} {_share(score.right, score.labelled):>22}"
        )
        if errors:
            print("".join(f"  {error}\n" for error in score.errors), end="")
