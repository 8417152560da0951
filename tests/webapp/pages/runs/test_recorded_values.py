"""What other trainers did not send is unknown on pages, in exports and in the API; what they did send is kept."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

import echoscope
from tests.webapp.api.api_clients import Callers, callers
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from webapp.explorer.compare import sides
from webapp.runs import echo_trap
from webapp.runs.models import LogLine, Run
from webapp.trajectories.models import Trajectory

__all__ = ["callers", "who"]


def imported(folder: Path, people: People) -> Run:
    call_command("import_journal", str(folder), "--team", people.team.slug, "--user", "ada")
    return Run.objects.get(imported=True)


def recorded(folder: Path, people: People, *, iterations: int = 1, **turn: Any) -> Run:
    """The loop of docs/other-trainers.md, with groups of eight attempts, each with a reward and a success."""
    run = echoscope.init("Documented", folder=folder, environment="Wordle")
    for iteration in range(1, iterations + 1):
        for member, attempt in enumerate(run.group(8, prompt="Guess.", iteration=iteration)):
            with attempt:
                attempt.turn(state="_____", response="CRANE", reward=float(member < 2), **turn)
                attempt.finish(success=member < 2)
        run.log({"my/loss": 0.3})
    run.evaluation("Wordle", iteration=iterations, prompts=8, trajectories=8, successes=2)
    run.finish()
    return imported(folder, people)


def cells(page: str, kind: str) -> set[str]:
    """Texts of a column of the explorer's table."""
    found = re.findall(rf'<td class="[^"]*of-{kind}">(.*?)</td>', page.partition("<tbody>")[2], re.S)
    return {" ".join(text.split()) for text in found}


def test_numbers_that_were_not_sent_are_no_zeros(
    people: People, who: Visitors, callers: Callers, tmp_path: Path
) -> None:
    run = recorded(tmp_path / "run", people)
    page = who.owner.get(f"/runs/{run.slug}/trajectories").content.decode()
    assert cells(page, "tokens") == {'<span class="soft" aria-label="tokens not recorded">–</span>'}
    assert cells(page, "format") == {'<span class="soft" aria-label="format not judged">–</span>'}
    items = json.loads(callers.owner.get(f"/api/runs/{run.slug}/trajectories").content)["items"]
    assert {(item["tokens"], item["format_error"]) for item in items} == {(None, None)}
    lines = b"".join(who.owner.get(f"/runs/{run.slug}/export/csv").streaming_content).decode()  # type: ignore[arg-type]
    assert {(row["token_count"], row["format_error"]) for row in csv.DictReader(io.StringIO(lines))} == {("", "")}
    for kind in ("jsonl", "parquet"):
        assert b"".join(who.owner.get(f"/runs/{run.slug}/export/{kind}").streaming_content)  # type: ignore[arg-type]
    (side,) = sides([run])
    assert side.tokens is None
    (result,) = json.loads(callers.owner.get(f"/api/runs/{run.slug}/evaluations").content)
    assert (result["mean_reward"], result["mean_turns"], result["mean_actions"]) == (None, None, None)
    for address in (f"/compare?runs={run.slug}&runs={run.slug}", f"/runs/{run.slug}/evaluation", f"/runs/{run.slug}/"):
        assert who.owner.get(address).status_code == 200
    attempt = Trajectory.objects.filter(run=run)[0]
    for address in ("", "/export/txt", "/picture.png", "/prompt"):
        assert who.owner.get(f"/t/{attempt.slug}{address}").status_code == 200


def test_numbers_that_were_sent_are_kept(people: People, who: Visitors, callers: Callers, tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", people, tokens=4, valid=True)
    page = who.owner.get(f"/runs/{run.slug}/trajectories").content.decode()
    assert cells(page, "tokens") == {'4<span class="name"> tokens</span>'}
    assert cells(page, "format") == {'<span class="soft">valid</span>'}
    items = json.loads(callers.owner.get(f"/api/runs/{run.slug}/trajectories").content)["items"]
    assert {(item["tokens"], item["format_error"]) for item in items} == {(4, False)}
    (side,) = sides([run])
    assert side.tokens == 32


@pytest.mark.parametrize("sort", ["tokens", "-tokens", "format", "-format"])
def test_pages_of_unknown_values_are_complete_in_any_order(
    sort: str, people: People, callers: Callers, tmp_path: Path
) -> None:
    run = recorded(tmp_path / "run", people)
    Trajectory.objects.filter(run=run, member__lt=3).update(token_count=5, format_error=True)
    seen, cursor = [], ""
    for _ in range(4):
        query = f"sort={sort}&limit=2" + (f"&cursor={cursor}" if cursor else "")
        page = json.loads(callers.owner.get(f"/api/runs/{run.slug}/trajectories?{query}").content)
        seen += [item["tokens"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert cursor is None
    known, unknown = [5] * 3, [None] * 5
    assert seen == (known + unknown if sort.startswith("-") else unknown + known)


def test_unknown_values_match_no_filter_of_them(people: People, callers: Callers, tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", people)
    for query in ("tokens_max=10", "tokens_min=0", "format=valid", "format=broken"):
        answer = callers.owner.get(f"/api/runs/{run.slug}/trajectories?{query}")
        assert (query, json.loads(answer.content)["items"]) == (query, [])


def test_the_documented_loop_has_success_and_can_be_judged(people: People, who: Visitors, tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", people, iterations=30)
    names = set(run.metrics.values_list("name", flat=True))
    assert {"success/rate", "reward/mean", "reward/in_group_std", "my/loss"} <= names
    assert run.metrics.filter(name="success/rate").count() == 30
    assert echo_trap.evidence(run)["spread"]
    assert "Nothing to judge" not in who.owner.get(f"/runs/{run.slug}/").content.decode()


def test_an_attempt_that_continues_is_named_by_page_and_log(people: People, who: Visitors, tmp_path: Path) -> None:
    for start in (0, 2):
        run = echoscope.init("Continued", folder=tmp_path, from_iteration=start)
        for iteration in range(start + 1, 4):
            with run.trajectory(prompt="p", iteration=iteration) as attempt:
                attempt.turn(state="s", response="r", reward=1)
            run.log({"loss": 1.0})
        run.evaluation("E", iteration=start + 1, prompts=1, trajectories=1, successes=0, mean_reward=0)
    shown = imported(tmp_path, people)
    current = Trajectory.objects.filter(run=shown).current()
    assert sorted(current.values_list("iteration", "attempt")) == [(1, 1), (2, 1), (3, 2)]
    assert sorted(shown.evaluations.values_list("iteration", flat=True)) == [1, 3]
    page = " ".join(who.owner.get(f"/runs/{shown.slug}/").content.decode().split())
    assert "attempt 2, continued after iteration 2" in page
    log = list(LogLine.objects.filter(run=shown, message__startswith="Attempt").values_list("message", flat=True))
    assert log == ["Attempt 1 started.", "Attempt 2 started, continues after iteration 2."]


def test_the_journal_is_offered_where_it_is(people: People, who: Visitors, callers: Callers, tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", people)
    address = f"/runs/{run.slug}/export/journal"
    assert address not in who.owner.get(f"/runs/{run.slug}/configuration").content.decode()
    assert who.owner.get(address).status_code == 404
    assert callers.owner.get(f"/api/runs/{run.slug}/export/journal").status_code == 404
    run.folder.mkdir(parents=True)
    (run.folder / "journal.jsonl").write_bytes((tmp_path / "run" / "journal.jsonl").read_bytes())
    assert address in who.owner.get(f"/runs/{run.slug}/configuration").content.decode()
    assert who.owner.get(address).status_code == 200
