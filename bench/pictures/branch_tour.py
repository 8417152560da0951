"""The questions to policies as an animated picture of two minutes, and their panel as a picture.

A run of a few iterations is trained for it: branches need its weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any

from bench.pictures.screenshots import Screenshot, Trajectory, fatal_position
from bench.pictures.tour import Recorder
from bench.soak.instance import Instance

NAME, PICTURE = "branching", "branches"
PRESET = "sokoban-starpo_s-pocket"
TITLE = "Sokoban, StarPO-S, pocket policy"
OVERRIDES = {"iterations": 8, "evaluation.every": 8}
VALUE_SAMPLES, THOUGHT_SAMPLES, BRANCHES = 16, 8, 16
TIMEOUT = 600.0
CANDIDATES = 16
CLEAR_FALL = 0.4
"""Loss of a turn, as a share solved, that ends the search for an attempt."""
POSITIONS = frozenset({"own_position", "box_position", "target_position"})
PANEL = Screenshot(
    PICTURE,
    lambda run, lost, learned: f"/t/{lost['slug']}{fatal_position(lost)}",
    part=".question:has(.value-curve)",
    height=1000,
    wait=".value-curve",
)


@dataclass(frozen=True)
class Story:
    """What the recording is about: a lost attempt, and a turn with a false position in its thought, from 1."""

    lost: Trajectory
    misread: int


def find_stories(lost: Iterable[Trajectory], turns: Callable[[str], Sequence[Any]]) -> Iterator[Story]:
    """Yield lost attempts whose thought misplaced something until the move that lost them, the newest first.

    Args:
        turns: reads the turns of an attempt.
    """
    found = [trajectory for trajectory in lost if trajectory["lost_at"] and trajectory["lost_at"]["turn"] in (1, 2, 3)]
    for trajectory in sorted(found, key=lambda trajectory: (-trajectory["iteration"], trajectory["key"])):
        for turn in turns(trajectory["slug"])[: trajectory["lost_at"]["turn"] + 1]:
            if any(_is_misplaced(claim) for claim in turn.get("claims") or ()):
                yield Story(trajectory, turn["turn"] + 1)
                break


def choose_story(stories: Iterable[Story], ask_value: Callable[[str], Mapping[str, Any]]) -> Story:
    """Return the attempt that a turn decided most clearly, by the value of its turns, among the first CANDIDATES.

    Args:
        ask_value: asks for the value of an attempt's turns.
    Raises:
        LookupError: there is none.
    """
    falls: list[tuple[float, Story]] = []
    for story in islice(stories, CANDIDATES):
        result = ask_value(story.lost["slug"])["result"]
        if result["decisive"] is not None:
            falls.append((result["turns"][result["decisive"]]["fall"], story))
            if falls[-1][0] >= CLEAR_FALL:
                break
    if not falls:
        raise LookupError("no lost attempt of this run fits; train for more iterations")
    return max(falls, key=itemgetter(0))[1]


def _is_misplaced(claim: dict[str, Any]) -> bool:
    one_place = len(claim.get("cells") or ()) == 1 == len(claim.get("actual_cells") or ())
    return not claim["true"] and claim.get("kind") in POSITIONS and one_place


def ask(instance: Instance, trajectory: str, **question: Any) -> Mapping[str, Any]:
    """Ask a question and return its answer. Raises RuntimeError if it fails."""
    asked = instance.request("POST", "/branches", {"trajectory": trajectory, **question})
    deadline = time.monotonic() + TIMEOUT
    while (answer := instance.request("GET", f"/branches/{asked['slug']}"))["state"] != "done":
        if answer["state"] == "failed" or time.monotonic() > deadline:
            raise RuntimeError(f"the question was not answered: {answer['message']}")
        time.sleep(0.5)
    return answer


def walk(recorder: Recorder, story: Story, ask_rest: Callable[[], None]) -> None:
    """Ask the questions as a reader would.

    Args:
        ask_rest: asks the slow questions, which are left out of the recording.
    """
    page, slug = recorder.page, story.lost["slug"]
    lost_turn = story.lost["lost_at"]["turn"] + 1
    recorder.open(f"/t/{slug}{fatal_position(story.lost)}", ".board svg")
    recorder.say("A lost attempt, at the move that lost it. Was it lost before?")
    recorder.hold(6)
    before = time.monotonic()
    ask_rest()
    page.reload()
    page.locator(".value-curve").wait_for(timeout=60_000)
    recorder.forget(time.monotonic() - before)
    recorder.say(f"Value by play: from every turn, {VALUE_SAMPLES} continuations, and the share solved.")
    recorder.point(".value-curve")
    recorder.hold(10)
    recorder.say("The turn that cost the most is red: a click shows it.")
    recorder.click(".value-curve figcaption a")
    recorder.hold(6)
    page.goto(f"/t/{slug}?turn={lost_turn}")
    page.locator("html.branches-ready").wait_for()
    recorder.say(f"Play on from turn {lost_turn}: the policy that played it tries again, {BRANCHES} times.")
    page.keyboard.press("b")
    page.locator("#ask-samples").fill(str(BRANCHES))
    recorder.point(".ask-form .button.primary")
    recorder.hold(4)
    recorder.click(".ask-form .button.primary", wait=".question[data-pending], .branch-tree")
    recorder.hold(3)
    page.locator(f"#branches-turn-{lost_turn} .branch-tree").first.scroll_into_view_if_needed()
    recorder.say("Its branches by their next actions. Each one is an attempt with a page of its own.")
    recorder.hold(9)
    page.goto(f"/t/{slug}?turn={story.misread}")
    page.locator("html.branches-ready").wait_for()
    recorder.say("Its thought misplaces something: translucent on the board. Does it win when it is corrected?")
    recorder.hold(8)
    recorder.click(f'[data-correct="{story.misread - 1}"]')
    recorder.hold(4)
    recorder.click(".ask-form .button.primary", wait=".question .changed")
    page.locator(f"#branches-turn-{story.misread} .branch-tree").first.wait_for(timeout=60_000)
    recorder.say("The answer, and the same question without the change, with the same seeds.")
    recorder.hold(9)
    recorder.say("Does it read its thought? Its next actions after no thought, a foreign one, a false one.")
    recorder.point(".thoughts-table")
    recorder.hold(10)
    recorder.say("Two attempts from the same start, moved by one scrubber.")
    recorder.click(f"#branches-turn-{story.misread} .beside a", wait=".play .board svg")
    for _ in range(6):
        page.locator("[data-forward]").click()
        recorder.hold(1.2)
    recorder.hold(2)
