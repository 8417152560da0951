"""Precision and recall of the claims that are read in thoughts, on the labelled sentences in tests/data/claims.

Precision: share of the claims found whose place and verdict are labelled so. Recall: share of the labelled ones found.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from envs import registry
from envs.base import Board, Claim

FOLDER = Path(__file__).parents[2] / "tests" / "data" / "claims"
ENVIRONMENTS = {
    "Sokoban": "sokoban",
    "FrozenLake": "frozen_lake",
    "Bandit": "bandit",
    "Countdown": "countdown",
    "WebShop": "webshop",
}
"""Environment → file of its sentences."""


@dataclass(frozen=True)
class Sentence:
    """A labelled text: its board, and the place and verdict of each claim in it."""

    text: str
    board: Board
    labels: tuple[tuple[int, int, bool], ...]


@dataclass(frozen=True)
class Score:
    """Counts of an environment. `wrong`: found but not labelled so; `missed`: labelled but not found."""

    environment: str
    sentences: int
    right: int
    wrong: int
    missed: int
    errors: tuple[str, ...] = ()

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0


def read_sentences(environment: str) -> list[Sentence]:
    """The labelled sentences of an environment. Raises ValueError for a label that its text does not contain."""
    boards = TypeAdapter(dict[str, Board]).validate_json((FOLDER / "boards.json").read_bytes())
    sentences = []
    for line in (FOLDER / f"{ENVIRONMENTS[environment]}.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        labels = [_place(record["text"], label, verdict == "true") for verdict in ("true", "false")
                  for label in record.get(verdict, [])]  # fmt: skip
        sentences.append(Sentence(record["text"], boards[record["board"]], tuple(sorted(labels))))
    return sentences


def _place(text: str, label: str, true: bool) -> tuple[int, int, bool]:
    start = text.find(label)
    if start < 0:
        raise ValueError(f"the label {label!r} is not in its text {text!r}")
    return start, start + len(label), true


def measure(environment: str) -> Score:
    """Compare what is read with the labels: a claim counts as right where it overlaps a label of the same verdict."""
    right = wrong = missed = 0
    errors = []
    sentences = read_sentences(environment)
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
    print(
        f"{'environment':<12} {'sentences':>9} {'claims':>7} {'wrong':>6} {'missed':>7} {'precision':>10} {'recall':>7}"
    )
    for score in scores:
        print(
            f"{score.environment:<12} {score.sentences:>9} {score.right + score.missed:>7} {score.wrong:>6} "
            f"{score.missed:>7} {score.precision:>10.1%} {score.recall:>7.1%}"
        )
        if options.errors:
            print("".join(f"  {error}\n" for error in score.errors), end="")
    if options.json:
        rows = [asdict(score) | {"precision": score.precision, "recall": score.recall} for score in scores]
        options.json.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
