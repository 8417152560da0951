"""Images of observations are deleted once no turn refers to them, and their quota is given back."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from tests.webapp import journal_builder
from tests.webapp.api.api_clients import Callers
from tests.webapp.conftest import People
from tests.webapp.observed_images import image_file, sha256_of
from webapp.api.models import SentJournal
from webapp.api.uploads import SWEEP_AFTER, do_store_image, do_sweep_images
from webapp.operations.retention import do_thin, thinnable
from webapp.runs.models import Run
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Trajectory
from webapp.trajectories.observation_images import find_image, read_image

pytestmark = pytest.mark.django_db
LATER = SWEEP_AFTER + timedelta(hours=1)


@pytest.fixture
def sent(callers: Callers, tmp_path: Path) -> Run:
    """A run that was sent here and ended forty days ago; its trajectories show no images yet."""
    data = journal_builder.write(tmp_path, *journal_builder.whole_run(3)).read_bytes()
    run = Run.objects.get(slug=callers.owner.post("/api/runs/import", data).json()["slug"])
    Run.objects.filter(pk=run.pk).update(ended_at=timezone.now() - timedelta(days=40))
    run.refresh_from_db()
    return run


def show(run: Run, trajectory: Trajectory, colour: str) -> str:
    """Send an image that the first turn of a trajectory refers to. Returns its hash."""
    data = image_file(colour=colour)
    image, _ = do_store_image(run, sha256_of(data), "image/png", data)
    turn = trajectory.turns.order_by("number")[0]
    turn.event["images"] = [image.model_dump()]
    turn.save(update_fields=["event"])
    return image.sha256


def kept(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "images").glob("*")}


def sweep() -> int:
    return do_sweep_images(timezone.now() + LATER)


def counted(run: Run) -> tuple[int, int]:
    row = SentJournal.objects.get(run=run)
    return row.image_count, row.image_bytes


def test_retention_deletes_the_images_of_the_trajectories_that_go(sent: Run, people: People) -> None:
    people.team.retention_days = 30
    people.team.save()
    going, shared, both = thinnable(timezone.now()).order_by("pk")[:3]
    stays = Trajectory.objects.filter(run=sent, group__number=0).first()
    assert stays is not None
    do_share_trajectory(shared, people.owner)
    lost, of_share = show(sent, going, "red"), show(sent, shared, "blue")
    common = show(sent, both, "green")
    assert show(sent, stays, "green") == common
    before = counted(sent)
    size = (sent.folder / "images" / f"{lost}.png").stat().st_size
    assert sweep() == 0, "each is referred to"

    assert do_thin(timezone.now()) > 0
    assert sweep() == 1
    assert kept(sent.folder) == {of_share, common}
    assert counted(sent) == (before[0] - 1, before[1] - size)
    assert sweep() == 0


def test_deleted_trajectories_give_back_the_quota(sent: Run, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_IMAGES_PER_RUN = 1
    trajectory, other = Trajectory.objects.filter(run=sent)[:2]
    show(sent, trajectory, "red")
    trajectory.delete()
    assert sweep() == 1
    assert counted(sent) == (0, 0)
    show(sent, other, "blue")
    assert counted(sent)[0] == 1


def test_an_image_whose_turn_never_arrived_is_deleted(sent: Run) -> None:
    data = image_file()
    do_store_image(sent, sha256_of(data), "image/png", data)
    assert do_sweep_images(timezone.now() + SWEEP_AFTER - timedelta(minutes=1)) == 0, "its turn may still arrive"
    assert sweep() == 1


@pytest.mark.parametrize("state", [Run.State.RUNNING, Run.State.PAUSED])
def test_images_of_an_unfinished_run_are_kept(sent: Run, state: Run.State) -> None:
    data = image_file()
    do_store_image(sent, sha256_of(data), "image/png", data)
    Run.objects.filter(pk=sent.pk).update(state=state)
    assert sweep() == 0
    assert kept(sent.folder) == {sha256_of(data)}


def test_a_sender_that_is_back_keeps_its_images(sent: Run) -> None:
    """It sends an image again that is there already, and its turn afterwards."""
    data = image_file()
    do_store_image(sent, sha256_of(data), "image/png", data)
    SentJournal.objects.filter(run=sent).update(heard_at=timezone.now() - LATER)
    do_store_image(sent, sha256_of(data), "image/png", data)
    assert do_sweep_images(timezone.now()) == 0
    assert kept(sent.folder) == {sha256_of(data)}


def test_runs_without_changes_are_not_read_again(sent: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    trajectory = Trajectory.objects.filter(run=sent)[0]
    show(sent, trajectory, "red")
    assert sweep() == 0

    def fail(run: Run) -> set[str]:
        raise AssertionError("the turns were read again")

    with monkeypatch.context() as patch:
        patch.setattr("webapp.api.uploads.referenced_images", fail)
        assert sweep() == 0
    trajectory.delete()
    assert sweep() == 1


def test_object_storage_is_swept_and_a_failure_is_made_up_for(
    sent: Run, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    bucket = tmp_path / "bucket"
    settings.STORAGES = settings.STORAGES | {
        "runs": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(bucket), "allow_overwrite": True},
        }
    }
    trajectory, other = Trajectory.objects.filter(run=sent)[:2]
    gone = {show(sent, trajectory, colour) for colour in ("red", "blue")}
    stays = show(sent, other, "green")
    trajectory.delete()
    assert kept(bucket / sent.slug) == {*gone, stays}
    remove, calls = os.remove, []

    def fails_once(path: str) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise OSError("the bucket does not answer")
        remove(path)

    monkeypatch.setattr("os.remove", fails_once)
    assert sweep() == 1
    assert "without references could not be deleted: the bucket does not answer" in caplog.text
    assert counted(sent)[0] == 2
    assert sweep() == 1
    assert kept(bucket / sent.slug) == {stays}
    assert counted(sent)[0] == 1
    image = find_image(other, stays)
    assert image is not None
    assert read_image(sent, image) == image_file(colour="green")
