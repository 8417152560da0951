"""Import of an external run as a run to browse."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.webapp import journal_builder
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from trainer.journal import events, reader
from webapp.runs.models import Run
from webapp.trajectories.models import Turn

__all__ = ["who"]

pytestmark = pytest.mark.django_db


def imported(*arguments: str) -> Run:
    out = StringIO()
    call_command("import_journal", *arguments, stdout=out)
    return Run.objects.get(slug=out.getvalue().rstrip().rstrip("/").rsplit("/", 1)[1])


def test_a_finished_run_is_imported_whole(people: People, tmp_path: Path) -> None:
    path = journal_builder.write(tmp_path, *journal_builder.whole_run(2))
    run = imported(str(path), "--team", people.team.slug, "--user", "ada")
    assert (run.state, run.title, run.environment, run.team, run.author) == (
        "finished",
        "Trial",
        "Sokoban",
        people.team,
        people.owner,
    )
    assert (
        Turn.objects.filter(trajectory__run=run).count()
        == 20
        == sum(isinstance(event, events.Turn) for event in reader.read(path))
    )


def test_checkpoints_on_the_machine_of_the_training_are_not_offered(
    people: People, tmp_path: Path, who: Visitors
) -> None:
    journal_builder.write(tmp_path, *journal_builder.whole_run(2))
    assert any(isinstance(event, events.CheckpointSaved) for event in reader.read(tmp_path / "journal.jsonl"))
    run = imported(str(tmp_path), "--team", people.team.slug)
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert 'id="result-title"' in page
    assert "model.tar" not in page
    assert "Checkpoints at" not in who.owner.get(f"/runs/{run.slug}/curves/").content.decode()


def test_a_truncated_journal_is_stopped_and_can_be_continued(people: People, tmp_path: Path) -> None:
    journal_builder.write(tmp_path, journal_builder.started(), *journal_builder.iteration(1))
    run = imported(str(tmp_path), "--team", people.team.slug)
    assert run.state == "stopped"
    journal_builder.write(tmp_path, events.RunFinished(reason="completed", iteration=1, message="Done."))
    again = imported(str(tmp_path), "--run", run.slug)
    assert (again.pk, again.state, again.seq) == (run.pk, "finished", run.seq + 1)


def test_a_broken_line_stops_the_import_with_advice_and_can_be_skipped(people: People, tmp_path: Path) -> None:
    path = journal_builder.write(tmp_path, *journal_builder.whole_run(1))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:-3], b"?\n", *lines[-2:]]))
    with pytest.raises(CommandError, match=rf"line {len(lines) - 2} is not an event.*--skip-bad-lines"):
        imported(str(tmp_path), "--team", people.team.slug)
    stuck = Run.objects.get()
    run = imported(str(tmp_path), "--run", stuck.slug, "--skip-bad-lines")
    assert (run.seq, run.journal_error, run.state) == (len(lines), "", "finished")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Give the folder"),
        (["/nowhere"], "There is no journal.jsonl in /nowhere"),
        (["--run", "nosuchrun"], "There is no run nosuchrun"),
        (["FOLDER"], "There are several teams"),
        (["FOLDER", "--team", "nosuchteam"], "There is no team nosuchteam"),
        (["FOLDER", "--team", "TEAM", "--user", "mallory"], "There is no user mallory in the team"),
    ],
)
def test_missing_arguments_are_reported(people: People, tmp_path: Path, arguments: list[str], words: str) -> None:
    journal_builder.write(tmp_path, journal_builder.started())
    known = {"FOLDER": str(tmp_path), "TEAM": people.team.slug}
    with pytest.raises(CommandError, match=words):
        imported(*[known.get(argument, argument) for argument in arguments])
    assert not Run.objects.exists()


def test_a_growing_journal_is_followed_until_its_run_has_ended(
    people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal_builder.write(tmp_path, journal_builder.started(), *journal_builder.iteration(1))
    states: list[str] = []
    steps = [
        lambda: states.append(Run.objects.get().state),
        lambda: journal_builder.write(tmp_path, *journal_builder.iteration(2)),
        lambda: states.append(f"{Run.objects.get().state} {Run.objects.get().iteration}"),
        lambda: journal_builder.write(tmp_path, events.RunFinished(reason="completed", iteration=2, message="Done.")),
    ]
    monkeypatch.setattr("webapp.management.commands.import_journal.time.sleep", lambda seconds: steps.pop(0)())
    run = imported(str(tmp_path), "--team", people.team.slug, "--follow")
    assert (run.state, run.iteration, states, steps) == ("finished", 2, ["running", "running 2"], [])


def test_ctrl_c_ends_following_and_it_can_be_resumed(
    people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    journal_builder.write(tmp_path, journal_builder.started(), *journal_builder.iteration(1))
    monkeypatch.setattr("webapp.management.commands.import_journal.time.sleep", interrupt)
    run = imported(str(tmp_path), "--team", people.team.slug, "--follow")
    assert (run.state, run.sent_journal.growing) == ("stopped", False)
    journal_builder.write(tmp_path, events.RunFinished(reason="completed", iteration=1, message="Done."))
    again = imported(str(tmp_path), "--run", run.slug, "--follow")
    assert (again.pk, again.state) == (run.pk, "finished")


def test_a_run_trained_on_this_site_is_not_followed(people: People, run: Run) -> None:
    journal_builder.write(run.folder, journal_builder.started())
    with pytest.raises(CommandError, match="its worker reads its journal"):
        imported("--run", run.slug, "--follow")
