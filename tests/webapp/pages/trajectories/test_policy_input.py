"""The policy's whole input, as the page of a turn shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings

from tests.trainer import tiny
from tests.webapp.page_requests import Visitors, play, who
from trainer.config.run import RunConfig
from trainer.policy.chat_format import ChatFormat
from webapp.pages.trajectories.policy_input import policy_input
from webapp.runs.models import Run
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Trajectory

__all__ = ["who"]

STYLES = tiny.styles()
RESPONSES = [tiny.answer("Up", thought="I go up."), "cut in the mid", tiny.answer("Down") + ", 64 tokens.", "→ 我"]


@pytest.mark.parametrize("window", [0, 1, 2])
@pytest.mark.parametrize("style", STYLES)
def test_it_is_the_text_of_the_tokens_that_the_policy_reads(style: str, window: int) -> None:
    chat = ChatFormat(STYLES[style], think=True, system="Answer briefly.")
    run = RunConfig.model_validate({"rollout": {"context_turns": window, "max_turns": 4}})
    episode = tiny.episode(chat, run)
    read: list[int] = []
    for number, response in enumerate(RESPONSES):
        replaces = episode.resets_prompt
        read = list(episode.prompt()) if replaces else read + episode.prompt()
        sampled = tiny.sampled(chat, response, ended=number != 1)
        assert episode.receive(sampled) is not None
        events = [turn.model_dump(mode="json") for turn in episode.trajectory.turns]
        pieces = policy_input(episode.task, events, number, context_turns=window)
        shown = chat.tokenizer.encode("".join(piece.text for piece in pieces), add_special_tokens=False)
        assert chat.tokenizer.decode(shown) == chat.tokenizer.decode(read)
        read += sampled.ids


@pytest.fixture
def trajectory(run: Run, tmp_path: Path, settings: Settings) -> Trajectory:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    play(run)
    found = Trajectory.objects.filter(run=run).order_by("-turn_count").first()
    assert found is not None
    return found


def test_the_page_shows_template_and_response_to_readers_of_the_run(trajectory: Trajectory, who: Visitors) -> None:
    turn = trajectory.turns.get(number=0)
    turn.event["frame"] = ["<|im_start|>system\nBe brief.\n", "<|im_end|>\n<|im_start|>assistant\n<think>"]
    turn.save(update_fields=["event"])
    address = f"/t/{trajectory.slug}/input/1"
    page = who.viewer.get(address).content.decode()
    assert '<span class="from-template">&lt;|im_start|&gt;system\nBe brief.' in page
    assert "assistant\n&lt;think&gt;</span></pre>" in page
    assert f'href="{address}"' in who.viewer.get(f"/t/{trajectory.slug}").content.decode()
    assert who.viewer.get(f"/t/{trajectory.slug}/input/99").status_code == 404
    link = do_share_trajectory(trajectory, trajectory.run.author)  # type: ignore[arg-type]
    shared = who.anonymous.get(f"/s/{link.token}").content.decode()
    assert "/input/" not in shared
    assert "Be brief." not in shared + who.anonymous.get(f"/s/{link.token}/export/json").content.decode()


def test_a_journal_without_templates_is_explained(trajectory: Trajectory, who: Visitors) -> None:
    page = who.viewer.get(f"/t/{trajectory.slug}/input/1").content.decode()
    assert "recorded by a version that did not store it" in page
