"""The player of notebooks: its sources and what it refuses."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

import echoscope
from echoscope.models import Share, Trajectory, TrajectoryDetail
from tests.echoscope.recorded_run import run_folder
from tests.webapp.observed_images import image_file, sha256_of

__all__ = ["run_folder"]


def test_a_share_link_becomes_the_embedded_player() -> None:
    frame = echoscope.player("https://echoscope.example/s/abc?turn=2&evil=1", theme="dark", action=3, turn=4)
    address = "https://echoscope.example/embed/abc?turn=4&amp;action=3&amp;theme=dark"
    assert f'src="{address}"' in frame._repr_html_()
    assert "evil" not in frame._repr_html_()
    below = echoscope.player("https://example.org/tools/s/abc")._repr_html_()
    assert 'src="https://example.org/tools/embed/abc"' in below
    share = Share.model_construct(token="abc", url="https://echoscope.example/s/abc", trajectory="t")
    assert 'src="https://echoscope.example/embed/abc"' in echoscope.player(share)._repr_html_()
    with pytest.raises(ValueError, match="open its share link instead"):
        frame.save("player.html")


def test_documents_of_exports_and_answers_of_the_api_are_shown_alike(tmp_path: Path) -> None:
    turn = {"turn": 0, "state": "s", "response": "r", "thought": "t", "actions": []}
    board = {"kind": "text", "text": "b"}
    facts = {"environment": "Bandit", "iteration": 3, "success": True, "total_reward": 1.5}
    export = tmp_path / "trajectory.json"
    export.write_text(json.dumps({**facts, "prompt": "p", "board": board, "turns": [turn]}))
    trajectory = Trajectory.model_construct(
        slug="a", status="success", turns=1, **{name: value for name, value in facts.items() if name != "success"}
    )
    detail = TrajectoryDetail.model_construct(
        trajectory=trajectory, seed=1, prompt="p", board=board, hint=None, turns=[turn], marks=[], verdict=None
    )
    from_file, from_api = echoscope.player(str(export)), echoscope.player(detail)
    assert from_file.page == from_api.page
    shown = json.loads(re.search(r'id="data">(.*?)</script>', from_file.page or "", re.S)[1])  # type: ignore[index]
    assert (shown["title"], shown["outcome"]) == ("Bandit, iteration 3", "solved, reward 1.5")
    assert from_file.save(tmp_path / "player.html").read_text() == from_file.page


def test_what_is_no_trajectory_is_refused_with_advice(run_folder: Path, tmp_path: Path) -> None:
    for source, options, message in (
        ("https://echoscope.example/t/abc", {}, "is not a share link"),
        (run_folder, {}, "has many trajectories: name one"),
        (run_folder, {"trajectory": "9-9-9"}, "has no trajectory '9-9-9'"),
        ({"id": "x"}, {}, "it needs `turns`"),
        ({"turns": [{"text": "x"}]}, {}, "it needs `turns`"),
        ({"turns": []}, {"turn": 0}, "count from 1"),
        ({"turns": []}, {"action": 1}, "give turn as well"),
    ):
        with pytest.raises(ValueError, match=message):
            echoscope.player(source, **options)  # type: ignore[arg-type]
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    with pytest.raises(ValueError, match="is not a JSON export of a trajectory"):
        echoscope.player(str(other))
    with pytest.raises(FileNotFoundError):
        echoscope.player(str(tmp_path / "missing.json"))


def shown_response(player: echoscope.Player) -> str:
    shown = json.loads(re.search(r'id="data">(.*?)</script>', player.page or "", re.S)[1])  # type: ignore[index]
    return str(shown["turns"][0]["text"])


def test_a_trajectory_of_a_recorded_run_is_found_by_id_place_and_number(tmp_path: Path) -> None:
    run = echoscope.init("Named", folder=tmp_path)
    keys = []
    for iteration in (1, 2):
        for group in (0, 1):
            for member, attempt in enumerate(run.group(2, prompt=f"p{group}", iteration=iteration)):
                attempt.turn(state="s", response=f"{iteration}-{group}-{member}")
                keys.append(attempt.key)
    evaluated = run.trajectory(prompt="p", iteration=2, split="eval")
    evaluated.turn(state="s", response="evaluated")
    assert shown_response(echoscope.player(tmp_path, trajectory=keys[5])) == "2-0-1"
    assert shown_response(echoscope.player(tmp_path, trajectory="2-1-0")) == "2-1-0"
    assert shown_response(echoscope.player(tmp_path, trajectory="2-0-0")) == "2-0-0"
    assert shown_response(echoscope.player(tmp_path, trajectory=1)) == "1-0-0"
    assert shown_response(echoscope.player(tmp_path, trajectory="9")) == "evaluated"
    with pytest.raises(ValueError, match=r"has no trajectory '3-0-0'.*number from 1 to 9") as refused:
        echoscope.player(tmp_path, trajectory="3-0-0")
    assert keys[0] in str(refused.value)
    with pytest.raises(ValueError, match="has no trajectory '10'"):
        echoscope.player(tmp_path, trajectory=10)


def test_a_trajectory_of_our_own_trainer_is_found_by_id_place_and_number(run_folder: Path) -> None:
    by_place = echoscope.player(run_folder, trajectory="1-0-0").page
    assert by_place == echoscope.player(run_folder, trajectory=1).page
    with pytest.raises(ValueError, match="has many trajectories: name one") as refused:
        echoscope.player(run_folder)
    key = re.search(r"its id \('([^']+)'", str(refused.value))
    assert key is not None
    assert by_place == echoscope.player(run_folder, trajectory=key[1]).page


def test_places_and_numbers_leave_out_what_a_later_attempt_superseded(tmp_path: Path) -> None:
    for response in ("old", "new"):
        run = echoscope.init("Twice", folder=tmp_path, from_iteration=0)
        run.trajectory(prompt="p", iteration=1).turn(state="s", response=response)
    assert shown_response(echoscope.player(tmp_path, trajectory="1-0-0")) == "new"
    assert shown_response(echoscope.player(tmp_path, trajectory=1)) == "new"
    with pytest.raises(ValueError, match="number from 1 to 1"):
        echoscope.player(tmp_path, trajectory=2)


def test_a_trajectory_that_a_later_attempt_played_again_is_shown_once(tmp_path: Path) -> None:
    group = {
        "type": "group_started",
        "environment": "E",
        "iteration": 1,
        "group": 0,
        "prompt": "",
        "board": None,
        "members": ["1-0"],
    }
    turns = [{"type": "turn", "trajectory": "1-0", "response": text, "actions": []} for text in ("old", "new")]
    end = {"type": "trajectory_finished", "trajectory": "1-0", "success": False, "total_reward": 0}
    lines = [group, turns[0], end, group, turns[1]]
    journal = tmp_path / "journal.jsonl"
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"type":"turn","trajectory":"1-0"')
    page = echoscope.player(journal, trajectory="1-0").page or ""
    assert '"new"' in page
    assert '"old"' not in page
    assert '"outcome":"not finished"' in page


def test_images_beside_a_journal_are_part_of_the_page_and_other_files_are_not(tmp_path: Path) -> None:
    seen = image_file()
    run = echoscope.init("Seen", folder=tmp_path / "run")
    attempt = run.trajectory(prompt="Play.", iteration=1)
    attempt.turn(state="a frame", images=seen, response="up")
    attempt.turn(state="a frame", images=image_file(colour="red"), response="up")
    attempt.finish(success=True)
    (tmp_path / "run" / "images" / f"{sha256_of(image_file(colour='red'))}.png").unlink()
    (tmp_path / "secret.png").write_bytes(seen)
    journal = tmp_path / "run" / "journal.jsonl"
    first = next(line for line in journal.read_text().splitlines() if sha256_of(seen) in line)
    wrong = first.replace(sha256_of(seen), "../../secret")
    journal.write_text(journal.read_text().replace(first, f"{first}\n{wrong}"))
    page = echoscope.player(tmp_path / "run", trajectory=attempt.key).page or ""
    shown = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])  # type: ignore[index]
    embedded = f"data:image/png;base64,{base64.b64encode(seen).decode()}"
    assert [turn["images"] for turn in shown["turns"]] == [[embedded], [], []]


def test_turns_of_other_trainers_have_text_calls_and_further_fields(tmp_path: Path) -> None:
    run = echoscope.init("Tools", folder=tmp_path / "run")
    call = {"name": "lookup", "arguments": {"word": "crane"}, "result": "a bird"}
    attempt = run.trajectory(prompt="Guess.", iteration=1)
    attempt.turn(state="s", thought="Hm.", response="<think>Hm.</think>I look.", tool_calls=[call], judge=7)
    attempt.finish(success=True)
    page = echoscope.player(tmp_path / "run", trajectory=attempt.key).page or ""
    (turn,) = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])["turns"]  # type: ignore[index]
    assert (turn["text"], json.loads(turn["more"])) == ("I look.", {"judge": 7})
    assert turn["actions"][0]["call"]["result"] == "a bird"
