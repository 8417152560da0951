"""Notice about a policy that cannot use its prompt yet."""

from __future__ import annotations

import pytest

from tests.trainer import tiny
from tests.trainer.diagnostics.test_compute import turn
from tests.trainer.loops.test_skipped_updates import events
from trainer.diagnostics.first_contact import first_contact_notice, measure
from trainer.journal.events import ActionRecord, Notice, RunStarted
from trainer.loops import run_factory
from trainer.loops.evaluate import results
from trainer.rollout.trajectory import Trajectory

PLACEHOLDERS = "Answer: <think>thought</think><answer>action || action</answer>, at most 3 actions, 64 tokens."
EXAMPLE = "Example of an answer: <think>I am at 2,3. Go Left.</think><answer>Left || Left</answer>"
UNKNOWN = ActionRecord(text="action", status="illegal")
LEFT = ActionRecord(text="Left", status="executed", name="Left", effective=True)


def notice(line: str, kind: str, thought: str, answer: str, action: ActionRecord, tail: str = ""):
    written = f"{thought}</think><answer>{answer}</answer>{tail}"
    changes = {"thought": thought, "answer": answer, "actions": [action], "response": written}
    played = Trajectory(id="t", group=0, member=0, turns=[turn().model_copy(update=changes)] * 3)
    contact = measure([(played, line)])
    assert contact is not None
    return first_contact_notice(contact, line=kind)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            (PLACEHOLDERS, "placeholders", "thought", "action || action", UNKNOWN),
            ["100% have a thought copied", "100% have an answer copied", "format_line=example", "sft.warmup_steps=16"],
        ),
        (
            (EXAMPLE, "example", "I am at 2,3. Go Left.", "Left || Left", LEFT),
            ["Of the first 3 responses, 100% have a thought copied", "What helps: if the environment has a solver"],
        ),
        (
            (EXAMPLE, "example", "Go Left. I am at 2,3.", "Left", LEFT),
            ["100% have a thought copied from the prompt's description of the format"],
        ),
        ((EXAMPLE, "example", "My own idea.", "Fly", UNKNOWN), ["none contains an action", "sft.warmup_steps=16"]),
    ],
)
def test_what_is_copied_or_not_accepted_is_named_with_advice(given, expected):
    text = notice(*given)
    assert text is not None
    for part in expected:
        assert part in text
    assert "follows the answer" not in text


def test_text_after_the_answer_is_named_where_responses_do_not_stop():
    text = notice(EXAMPLE, "placeholders", "My own idea.", "Left", LEFT, " And so on." * 20)
    assert text is not None
    assert "of the text follows the answer" in text
    assert text.endswith("What helps: any other rollout.format_line than placeholders ends them there.")


def test_own_thoughts_with_actions_of_the_example_are_no_reason_for_a_notice():
    assert notice(EXAMPLE, "example", "The goal is to the left of me.", "Left || Left", LEFT) is None
    assert measure([]) is None


def test_a_language_model_that_cannot_play_is_reported_once_and_its_prompt_settings_are_recorded(
    llama_folder, tmp_path
):
    config = tiny.config(llama_folder, kind="evaluate", evaluation={"prompts": 2, "suites": ["Bandit"]})
    run_factory.run(config, tmp_path, tmp_path / "cache")
    messages = [event.message for event in events(tmp_path, Notice)]
    assert [message for message in messages if "Of the first" in message] == messages
    assert len(messages) == 1
    assert "none contains an action that the environment accepts" in messages[0]
    (started,) = events(tmp_path, RunStarted)
    chosen = started.config["rollout"]["format_line"], started.config["environment"]["cells"]
    assert chosen == ("example", "spaced")
    assert config.rollout.format_line == "auto"
    assert set(results(tmp_path, config)) == {"Sokoban", "Bandit"}, "so that a resumed run plays none of them again"


def test_a_pocket_policy_keeps_its_prompt_and_gets_no_notice(pocket_folder, tmp_path):
    run_factory.run(tiny.config(pocket_folder, kind="evaluate"), tmp_path, tmp_path / "cache")
    assert not events(tmp_path, Notice)
    (started,) = events(tmp_path, RunStarted)
    assert started.config["rollout"]["format_line"] == "placeholders"
