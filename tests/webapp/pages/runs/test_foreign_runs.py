"""Pages of runs of other trainers show what was sent, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command

import echoscope
from echoscope.importers.importing import import_files
from tests.webapp.api.api_clients import Callers, callers, problem
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from tests.webapp.pages.trajectories.test_export_views import download
from trainer.config.run import RunConfig
from webapp.explorer.compare import differences
from webapp.explorer.run_result import of_run
from webapp.live.snapshot import heading
from webapp.runs.models import Run
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Group, Trajectory, Turn
from webapp.trajectories.render import text as text_drawing

__all__ = ["callers", "who"]

INVENTED = ("Sokoban", "pocket", "StarPO", "python -m trainer", "8 puzzles × 16", "temperature")
TABS = ("", "trajectories", "curves", "evaluation", "configuration", "log")


def recorded(folder: Path, people: People, *, finish: bool = True, config: Any = None) -> Run:
    """A run of another trainer: one iteration of a group of four, of which one succeeds."""
    run = echoscope.init("GRPO on Wordle", folder=folder, config={"lr": 1e-6, "model": {"name": "m-7b"}})
    for number, attempt in enumerate(
        run.group(4, prompt="Guess.", iteration=3, environment="Wordle", source="x.jsonl")
    ):
        attempt.turn(state="_____", response="CRANE", reward=float(number == 0), tool_calls=[{"name": "look"}])
        attempt.finish(success=number == 0, judge=7)
    run.log({"my/loss": 0.5}, iteration=3)
    if finish:
        run.finish()
    if config is not None:
        journal = folder / "journal.jsonl"
        first, *rest = journal.read_text().splitlines(keepends=True)
        journal.write_text(json.dumps(json.loads(first) | {"config": config}) + "\n" + "".join(rest))
    call_command("import_journal", str(folder), "--team", people.team.slug, "--user", "ada")
    return Run.objects.get(title="GRPO on Wordle")


@pytest.mark.parametrize("finish", [True, False])
def test_no_tab_shows_anything_that_was_not_sent(finish: bool, people: People, who: Visitors, tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", people, finish=finish)
    for tab in TABS:
        response = who.owner.get(f"/runs/{run.slug}/{tab}")
        page = response.content.decode()
        assert response.status_code == 200, tab
        assert [words for words in (*INVENTED, "?clone=", "?from=") if words in page] == [], tab


def test_the_wall_has_the_shape_of_what_was_played(people: People, who: Visitors, tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", people)
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert "1 task × 4" in page
    assert "kept" not in page.partition("data-wall-note")[2].partition("</p>")[0]
    described = heading(run)["run"]
    assert (described["groups"], described["group_size"]) == (1, 4)
    result = of_run(Run.objects.get(pk=run.pk))
    assert (run.environment, result and result.trajectories) == ("Wordle", 4)
    assert "Finished after iteration 3" in page


@pytest.mark.parametrize("config", [None, {"trainer": "trl", "lr": 1e-6}, {}])
def test_the_configuration_is_what_was_sent(config: Any, people: People, who: Visitors, tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", people, config=config)
    sent = {"lr": 1e-6, "model": {"name": "m-7b"}} if config is None else config
    assert run.recorded == sent
    page = who.owner.get(f"/runs/{run.slug}/configuration").content.decode()
    assert ("as it sent them" if sent else "sent no settings") in page
    download = who.owner.get(f"/runs/{run.slug}/configuration?download=1").content.decode()
    assert (yaml.safe_load(download) or {}) == sent


def test_clones_and_studies_of_it_are_refused_with_the_reason(
    people: People, who: Visitors, callers: Callers, tmp_path: Path
) -> None:
    run = recorded(tmp_path / "run", people)
    response = who.owner.get(f"/runs/new?clone={run.slug}")
    assert response.status_code == 409
    assert "was trained by another trainer" in response.content.decode()
    answer = callers.owner.post(f"/api/runs/{run.slug}/clone", {"overrides": {"seed": 3}})
    assert (answer.status_code, "another trainer" in problem(answer)["message"]) == (409, True)
    assert who.owner.get(f"/studies/new?from={run.slug}").status_code == 200
    trajectory = Trajectory.objects.filter(run=run).first()
    assert trajectory is not None
    assert "recorded no tokens" in who.owner.get(f"/t/{trajectory.slug}/tokens.json").content.decode()
    for page in ("", ".json", "/prompt", "/embed", "/picture.png", "/export/txt", "/film.webp"):
        assert who.owner.get(f"/t/{trajectory.slug}{page}").status_code == 200, page


REPORT = "Name   Count\n  moons    2\n\nThat is all."
CHAT = [
    {"role": "user", "content": "How many moons has Tavi?"},
    {
        "role": "assistant",
        "content": "I look it up.",
        "tool_calls": [{"id": "c1", "function": {"name": "search", "arguments": '{"query": "moons of Tavi"}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "Tavi has <two> moons."},
    {"role": "assistant", "content": f"<think>Two, then.</think>{REPORT}", "logged_by": "judge-7"},
]
JUDGEMENTS = ("No thought.", "contains no action", "No answer.", "Actions: none", "Thought:\n    none", "0 tokens")


@pytest.fixture
def chat(people: People, tmp_path: Path) -> Trajectory:
    """An imported chat: a call of a tool with text beside it, then a plain answer."""
    file = tmp_path / "chats.jsonl"
    file.write_text(json.dumps({"messages": CHAT, "task": "Moons", "annotator": "<b>mira</b>"}) + "\n")
    import_files([file], tmp_path / "chats")
    call_command("import_journal", str(tmp_path / "chats"), "--team", people.team.slug, "--user", "ada")
    return Trajectory.objects.select_related("run").get()


def turns_of(page: str) -> list[str]:
    return page.partition("data-turns")[2].partition("</ol>")[0].split('<li class="turn"')[1:]


def test_a_plain_turn_shows_the_whole_response_without_a_judgement(chat: Trajectory, who: Visitors) -> None:
    page = who.owner.get(f"/t/{chat.slug}").content.decode()
    _, answer = turns_of(page)
    assert '<p class="thought">Two, then.</p>' in answer
    assert f'<p class="response-text">{REPORT}</p>' in answer
    assert "chips" not in answer
    assert "judge-7" in answer.partition("<summary>More</summary>")[2]
    assert [words for words in JUDGEMENTS if words in page] == []


def test_a_call_shows_the_text_beside_it_its_arguments_and_its_result(chat: Trajectory, who: Visitors) -> None:
    call, _ = turns_of(who.owner.get(f"/t/{chat.slug}").content.decode())
    assert '<p class="response-text">I look it up.</p>' in call
    assert '<code class="call-text">search(moons of Tavi)</code>' in call
    assert '<pre class="call-result">Tavi has &lt;two&gt; moons.</pre>' in call
    assert 'class="thought' not in call
    assert "<summary>More</summary>" not in call


def test_the_stage_of_the_live_page_shows_the_same(chat: Trajectory, who: Visitors) -> None:
    page = who.owner.get(f"/runs/{chat.run.slug}/").content.decode()
    call, answer = turns_of(page)
    assert '<pre class="call-result">Tavi has &lt;two&gt; moons.</pre>' in call
    assert f'<p class="response-text">{REPORT}</p>' in answer
    assert [words for words in JUDGEMENTS if words in call + answer] == []


def test_lists_have_the_first_words_of_a_turn_without_a_thought(chat: Trajectory, who: Visitors) -> None:
    assert "I look it up." in who.owner.get(f"/runs/{chat.run.slug}/trajectories").content.decode()


def test_the_transcript_has_what_was_sent(chat: Trajectory, who: Visitors) -> None:
    text = who.owner.get(f"/t/{chat.slug}/export/txt").content.decode()
    assert "Response:\n    I look it up." in text
    assert "search(moons of Tavi): executed" in text
    assert "Result:\n            Tavi has <two> moons." in text
    assert [words for words in JUDGEMENTS if words in text] == []


def test_further_fields_of_attempt_and_group_are_for_the_team_alone(
    chat: Trajectory, people: People, who: Visitors
) -> None:
    page = who.owner.get(f"/t/{chat.slug}").content.decode()
    assert "&lt;b&gt;mira&lt;/b&gt;" in page.partition("More about this attempt")[2]
    assert "chats.jsonl" in page.partition("More about its group")[2]
    link = do_share_trajectory(chat, people.owner)
    shared = who.anonymous.get(f"/s/{link.token}").content.decode()
    assert f'<p class="response-text">{REPORT}</p>' in shared
    assert "writes a thought" not in shared
    assert 'property="og:title" content="An attempt at ' in shared
    first = who.anonymous.get(f"/s/{link.token}?turn=1").content.decode()
    assert "next to the response of that turn" in first
    assert [words for words in ("mira", "chats.jsonl") if words in shared] == []


def test_pictures_of_plain_turns_name_no_missing_action(
    chat: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    write = text_drawing.write

    def record(draw: Any, place: Any, text: str, *args: Any, **options: Any) -> float:
        drawn.append(text)
        return write(draw, place, text, *args, **options)

    monkeypatch.setattr("webapp.trajectories.render.card.write", record)
    for turn in (1, 2):
        assert who.owner.get(f"/t/{chat.slug}/picture.png?turn={turn}").status_code == 200
    text = " ".join(drawn)
    assert ("I look it up." in text, "search(moons of Tavi)" in text, "That is all." in text) == (True, True, True)
    assert [words for words in ("No thought.", "No action in the answer.") if words in text] == []


def test_pages_have_no_controls_and_words_of_our_own_environments(
    chat: Trajectory, people: People, who: Visitors
) -> None:
    link = do_share_trajectory(chat, people.owner)
    addresses = (f"/t/{chat.slug}", f"/t/{chat.slug}/prompt", f"/runs/{chat.run.slug}/", f"/s/{link.token}")
    for address in addresses:
        page = who.owner.get(address).content.decode()
        found = re.findall(r".{30}(?:Solver advice|solver advice|Token view| puzzle).{30}", page)
        assert (address, found) == (address, [])


def test_an_attempt_of_unknown_success_is_no_failure(chat: Trajectory, who: Visitors) -> None:
    assert (chat.status, chat.end_reason) == (Trajectory.Status.UNKNOWN, "unknown")
    assert "Ended after 2 turns, 1 action" in who.owner.get(f"/t/{chat.slug}").content.decode()
    table = who.owner.get(f"/runs/{chat.run.slug}/trajectories?outcome=unknown").content.decode()
    assert chat.slug in table
    assert chat.slug not in who.owner.get(f"/runs/{chat.run.slug}/trajectories?outcome=failed").content.decode()


def test_a_reward_that_was_not_recorded_is_shown_nowhere(
    chat: Trajectory, people: People, who: Visitors, callers: Callers
) -> None:
    assert (chat.rewarded, chat.reward, chat.total_reward) == (False, None, 0)
    link = do_share_trajectory(chat, people.owner)
    for address in (f"/t/{chat.slug}", f"/t/{chat.slug}/export/txt", f"/s/{link.token}"):
        page = who.owner.get(address).content.decode()
        assert (address, re.findall(r"(?i)reward [–+\d].{10}|turn-reward", page)) == (address, [])
    assert json.loads(callers.owner.get(f"/api/trajectories/{chat.slug}").content)["trajectory"]["total_reward"] is None
    live = json.loads(callers.owner.get(f"/api/runs/{chat.run.slug}/trajectories").content)["items"]
    assert [item["total_reward"] for item in live] == [None]


def test_the_api_names_attempts_of_other_trainers(chat: Trajectory, callers: Callers) -> None:
    assert json.loads(callers.owner.get(f"/api/trajectories/{chat.slug}").content)["recorded"] is True


def test_attempts_of_our_own_trainer_are_judged_by_its_format(run: Run, people: People, who: Visitors) -> None:
    group = Group.objects.create(
        run=run,
        attempt=1,
        iteration=1,
        split="train",
        number=0,
        environment="Sokoban",
        seed=1,
        prompt="Push.",
        board={"kind": "text", "text": ""},
    )
    own = Trajectory.objects.create(
        run=run, group=group, attempt=1, key="1-0-0", member=0, iteration=1, split="train", turn_count=1
    )
    event = {
        "turn": 0,
        "state": "s",
        "response": "<answer>sing</answer>",
        "thought": "",
        "answer": "sing",
        "reward": 0.0,
        "format_valid": True,
        "actions": [],
        "terms": {},
        "tokens": 0,
        "truncated": False,
    }
    Turn.objects.create(trajectory=own, number=0, seq=1, reward=0.0, format_valid=True, event=event)
    page = who.owner.get(f"/t/{own.slug}").content.decode()
    for words in ("No thought.", "The answer “sing” contains no action.", "0 tokens", "Full input of the policy"):
        assert words in page
    assert "response-text" not in page
    assert who.owner.get(f"/t/{own.slug}.json").json()["turns"][0]["reward"] is None, "none was recorded"
    exported = download(who.owner, f"/runs/{run.slug}/export/jsonl").splitlines()
    assert json.loads(exported[0])["turns"][0]["reward"] is None
    link = do_share_trajectory(own, people.owner)
    assert "writes a thought and acts" in who.anonymous.get(f"/s/{link.token}").content.decode()


def test_extra_fields_are_kept_and_exported(people: People, who: Visitors, tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", people)
    lines = download(who.owner, f"/runs/{run.slug}/export/jsonl").splitlines()
    document = json.loads(lines[0])
    assert document["turns"][0]["extra"] == {"tool_calls": [{"name": "look"}]}
    assert (document["extra"], document["group_extra"]) == ({"judge": 7}, {"source": "x.jsonl"})


def test_runs_of_other_trainers_are_compared_by_what_they_recorded(people: People, run: Run, tmp_path: Path) -> None:
    foreign = recorded(tmp_path / "run", people)
    (group,) = differences([foreign, run])
    values = {difference.name: difference.values for difference in group.differences}
    assert values["model.name"] == ["m-7b", ""]
    assert values["algorithm.estimator"] == ["", RunConfig().algorithm.estimator]
    assert differences([foreign, foreign]) == []


def test_settings_of_our_own_trainer_stay_settings(people: People, tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", people, config=RunConfig().model_dump(mode="json") | {"of_a_later_version": 1})
    assert run.recorded is None
    assert run.config["rollout"]["groups"] == 8


def sent(folder: Path, people: People) -> Run:
    call_command("import_journal", str(folder), "--team", people.team.slug, "--user", "ada")
    return Run.objects.get()


def test_a_run_without_attempts_has_its_curves_in_place_of_the_wall(
    people: People, who: Visitors, tmp_path: Path
) -> None:
    recorder = echoscope.init("Fine-tuning", folder=tmp_path)
    for step in (1, 2, 3):
        recorder.log({"loss": 1 / step, "eval_loss": 2 / step, "policy/grad_norm": 1.0}, iteration=step)
    run = sent(tmp_path, people)
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert "eval_loss" in page
    assert "data-curves=" in page
    assert "recorded metrics, but no attempts that could be watched, so this page shows its curves." in page
    for words in ("Click any square", "0 tasks", "No attempts", "Nothing to judge"):
        assert words not in page
    recorder.trajectory(prompt="p", iteration=4, environment="Sums").finish(success=True)
    call_command("import_journal", "--run", run.slug, str(tmp_path))
    assert "Click any square" in who.owner.get(f"/runs/{run.slug}/").content.decode()


def test_an_evaluation_without_attempts_is_not_introduced_by_squares(
    people: People, who: Visitors, tmp_path: Path
) -> None:
    recorder = echoscope.init("Evaluated", folder=tmp_path)
    recorder.evaluation("GSM8K", iteration=0, prompts=4, trajectories=4, successes=3)
    recorder.finish()
    run = sent(tmp_path, people)
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    for words in ("Click any square", "0 tasks", "No attempts", "No curves"):
        assert words not in page
    assert "recorded 1 evaluation, but no attempts that could be watched." in page
    assert '<p class="result-delta number"><b>75' in page


def test_a_run_of_rewards_without_attempts_has_its_curves_and_once_it_has_ended_its_result(
    people: People, who: Visitors, tmp_path: Path
) -> None:
    recorder = echoscope.init("Rewards", folder=tmp_path)
    for step in (1, 2, 3, 4):
        recorder.log({"reward/mean": step / 10, "success/rate": step / 5}, iteration=step)
    recorder.finish()
    run = sent(tmp_path, people)
    ended = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert 'id="result-title"' in ended
    Run.objects.update(state=Run.State.RUNNING, ended_at=None)
    running = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert 'id="result-title"' not in running
    for page in (ended, running):
        assert "recorded metrics, but no attempts that could be watched" in page
        assert "data-curves=" in page
        assert "data-wall" not in page


def test_a_run_without_an_environment_works_on_a_task(people: People, who: Visitors, tmp_path: Path) -> None:
    echoscope.init("Chats", folder=tmp_path).trajectory(prompt="p").finish(success=None)
    run = sent(tmp_path, people)
    Run.objects.update(environment="")
    assert "A language model works on a task. Each square" in who.owner.get(f"/runs/{run.slug}/").content.decode()
