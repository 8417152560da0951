"""Scanners: filters of the explorer that find rewards won the wrong way, and responses gone wrong."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.utils.text import slugify


@dataclass(frozen=True)
class Scanner:
    """A shipped view of the explorer; `filters` is its query string as a mapping."""

    name: str
    sentence: str
    filters: dict[str, str]

    @property
    def slug(self) -> str:
        """Name in addresses, and of its labels: a renamed scanner begins without labels."""
        return slugify(self.name)

    @property
    def query(self) -> str:
        return urlencode(self.filters)


SCANNERS = (
    Scanner("Rewarded, not solved", "Ended without success, and with a reward.", {
        "outcome": "failed", "reward_min": "0.01", "sort": "-reward"
    }),
    Scanner("Solved with a false claim", "A thought says something false, and the attempt succeeds.", {
        "outcome": "success", "claims": "false"
    }),
    Scanner("Solved by luck", "Succeeded in spite of a blunder.", {"outcome": "success", "mark": "blunder"}),
    Scanner("Text after the answer", "The response goes on after its closing tag.", {"pattern": r"</answer>\s*\S"}),
    Scanner("Several answers", "A response has more than one answer.", {"pattern": r"</answer>.*</answer>"}),
    Scanner("Empty thought", "There is nothing between the tags of a thought.", {"pattern": r"(^|<think>)\s*</think>"}),
    Scanner("Placeholder for a thought", "The thought is a word of the format line.", {
        "pattern": r"(?i)(^|<think>)\W*(your |my )?(thoughts?|reasoning|thinking|\.\.\.)\W*</think>"
    }),
    Scanner("Repeats a word", "The same word five times in a row.", {"pattern": r"\b(\w{2,})(\W+\1){4}\b"}),
    Scanner("Repeats a line", "The same line three times in a row.", {"pattern": r"([^\n<>]{8,})(\n+\1){2}"}),
    Scanner("Another script", "Letters that are not Latin.", {"pattern": r"[\u0370-\u1dff\u2e80-\ud7ff]"}),
    Scanner("Writes about its reward", "The response mentions rewards, scores or tests.", {
        "pattern": r"(?i)\b(rewards?|scored?|graders?|unit tests?|test cases?)\b"
    }),
    Scanner("Broken format", "At least one turn breaks the format.", {"format": "broken"}),
    Scanner("Environment failed", "The environment, or a reward, raised an error.", {"outcome": "error"}),
    Scanner("Mismatched tokens", "Sampler and trainer disagree most about their tokens.", {"sort": "-mismatch"}),
)  # fmt: skip
