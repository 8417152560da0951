"""Time from a question to the first words of a branch in the page, and to its end.

    python -m bench.branching                 # ten questions, in a product of its own, while a run trains
    python -m bench.branching --questions 30

Starts the product as `make up` does, trains a small run to its end, starts another run, and asks to play on from
attempts of the first one. The page's fragment is requested at the interval of an open page. Cold: no process holds the
weights, which is so for the first question about a checkpoint. Warm: the process of the question before answers.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.soak.instance import Instance
from trainer.studies import machine

PRESET = "sokoban-starpo_s-pocket"
REFRESH = 0.5
"""Seconds between two requests of the open page, as in templates/trajectories/_branch_question.html."""
TIMEOUT = 120.0
TRAINING_TIMEOUT = 900.0


@dataclass
class Answered:
    """Seconds from a question to the first words in the page, and to the end of its branches."""

    cold: bool
    first: float
    end: float


class Asker:
    """A member of a team, with the API and a browser's session."""

    def __init__(self, instance: Instance) -> None:
        api = {"Authorization": f"Bearer {instance.token}"}
        self.api = httpx.Client(base_url=f"{instance.url}/api", headers=api, timeout=60)
        name, value = instance.cookie.split("=", 1)
        self.pages = httpx.Client(base_url=instance.url, cookies={name: value}, timeout=60)

    def launch(self, **changes: Any) -> str:
        """Launch the preset with changed settings. Returns the slug of the run."""
        answer = self.api.post("/runs", json={"preset": PRESET, "overrides": changes})
        answer.raise_for_status()
        return str(answer.json()["slug"])

    def wait_for(self, run: str) -> None:
        """Wait for the end of a run. Raises TimeoutError."""
        deadline = time.monotonic() + TRAINING_TIMEOUT
        while self.api.get(f"/runs/{run}").json()["state"] != "finished":
            if time.monotonic() > deadline:
                raise TimeoutError(f"run {run} does not end")
            time.sleep(1)

    def attempts(self, run: str, count: int) -> list[str]:
        """Return slugs of attempts of the last iteration."""
        found = self.api.get(f"/runs/{run}/trajectories", params={"split": "train", "limit": count}).json()
        return [attempt["slug"] for attempt in found["items"]]

    def ask(self, attempt: str, *, cold: bool) -> Answered:
        """Ask, and look at the page until the branch has ended. Raises TimeoutError."""
        began = time.monotonic()
        question = self.api.post("/branches", json={"trajectory": attempt, "turn": 0, "samples": 1, "temperature": 1.0})
        question.raise_for_status()
        slug, first = question.json()["slug"], 0.0
        while time.monotonic() - began < TIMEOUT:
            page = self.pages.get(f"/t/{attempt}/branches", params={"question": slug}).raise_for_status().text
            if not first and 'class="written"' in page:
                first = time.monotonic() - began
            state = self.api.get(f"/branches/{slug}").raise_for_status().json()
            if state["state"] == "failed":
                raise RuntimeError(state["message"])
            if state["state"] == "done":
                end = time.monotonic() - began
                return Answered(cold, first or end, end)
            time.sleep(REFRESH)
        raise TimeoutError("no answer")


def measure(instance: Instance, questions: int) -> list[Answered]:
    """Return the times of each question; the first one is cold."""
    asker = Asker(instance)
    played = asker.launch(iterations=2, **{"evaluation.prompts": 0})
    asker.wait_for(played)
    asker.launch(iterations=500)
    time.sleep(10)
    attempts = asker.attempts(played, questions)
    return [asker.ask(attempt, cold=number == 0) for number, attempt in enumerate(attempts)]


def main() -> None:
    """Measure, print the table and write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="echoscope-branching-"))
    instance = Instance(home / "data", slots=1)
    try:
        instance.start()
        answered = measure(instance, options.questions)
    finally:
        instance.stop()
        shutil.rmtree(home, ignore_errors=True)
    print(f"{machine.describe()}; a run of {PRESET} trains meanwhile\n")
    print("| sampler | questions | first words, s (median, worst) | end, s (median) |\n| --- | ---: | ---: | ---: |")
    for cold, name in ((True, "cold"), (False, "warm")):
        if some := [one for one in answered if one.cold == cold]:
            first = [one.first for one in some]
            middle, end = statistics.median(first), statistics.median(one.end for one in some)
            print(f"| {name} | {len(some)} | {middle:.2f}, {max(first):.2f} | {end:.2f} |")
    if options.json:
        facts = {"machine": machine.describe(), "answered": [asdict(one) for one in answered]}
        options.json.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
