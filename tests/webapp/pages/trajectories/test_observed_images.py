"""Images of observations on pages: who may see them, how they are served, and what pages and exports say of them."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.core.management import call_command
from django.test import Client

import echoscope
from tests.webapp.conftest import People
from tests.webapp.javascript import evaluate
from tests.webapp.observed_images import image_file, observe, sha256_of
from tests.webapp.page_requests import Visitors, assert_private, play, who
from trainer.journal.observation_images import MAX_TURN_IMAGES, ObservationImage, image_path
from webapp.runs.models import EventBatch, Run
from webapp.trajectories.actions import do_revoke_share, do_share_trajectory
from webapp.trajectories.models import Trajectory, Turn
from webapp.trajectories.observation_images import shown_size

__all__ = ["who"]
SIZES = [(640, 480), (84, 84), (1, 1), (8192, 3), (3, 8192), (300, 200), (159, 20), (160, 160)]


@pytest.fixture
def trajectory(run: Run) -> Trajectory:
    play(run)
    return Trajectory.objects.filter(run=run).order_by("-turn_count", "pk")[0]


@pytest.fixture
def image(trajectory: Trajectory) -> ObservationImage:
    return observe(trajectory)


def test_readers_of_the_run_see_an_image_and_others_do_not(
    trajectory: Trajectory, image: ObservationImage, who: Visitors
) -> None:
    address = f"/t/{trajectory.slug}/images/{image.sha256}"
    assert_private(address, who)
    for client in (who.owner, who.viewer):
        assert client.get(address).content == image_file()
    Run.objects.update(visibility=Run.Visibility.LINK)
    assert who.anonymous.get(address).content == image_file()


def test_an_image_is_served_as_nothing_but_an_image(
    trajectory: Trajectory, image: ObservationImage, who: Visitors
) -> None:
    address = f"/t/{trajectory.slug}/images/{image.sha256}"
    response = who.viewer.get(address)
    assert response["Content-Type"] == "image/png"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"
    assert response["Cache-Control"] == "private, max-age=300"
    again = who.viewer.get(address, headers={"If-None-Match": response["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again["Content-Security-Policy"] == response["Content-Security-Policy"]


def test_a_link_shows_the_images_of_its_trajectory_until_it_is_revoked(
    trajectory: Trajectory, image: ObservationImage, people: People, who: Visitors
) -> None:
    other = Trajectory.objects.filter(run=trajectory.run).exclude(pk=trajectory.pk)[0]
    hidden = observe(other, image_file(colour="red"))
    link = do_share_trajectory(trajectory, people.owner)
    response = who.anonymous.get(f"/s/{link.token}/images/{image.sha256}")
    assert (response.status_code, response.content) == (200, image_file())
    assert "noindex" in response["X-Robots-Tag"]
    assert who.anonymous.get(f"/s/{link.token}/images/{hidden.sha256}").status_code == 404
    for page in (f"/s/{link.token}", f"/embed/{link.token}"):
        text = who.anonymous.get(page).content.decode()
        assert f'src="/s/{link.token}/images/{image.sha256}"' in text
        assert f"/t/{trajectory.slug}" not in text
    do_revoke_share(link)
    assert who.anonymous.get(f"/s/{link.token}/images/{image.sha256}").status_code == 404


def test_an_image_that_was_not_sent_is_not_found(
    trajectory: Trajectory, image: ObservationImage, who: Visitors
) -> None:
    (trajectory.run.folder / image_path(image.sha256, image.media_type)).unlink()
    assert who.owner.get(f"/t/{trajectory.slug}/images/{image.sha256}").status_code == 404
    assert who.owner.get(f"/t/{trajectory.slug}/images/{'0' * 64}").status_code == 404
    assert who.owner.get(f"/t/{trajectory.slug}").status_code == 200


def test_the_page_has_the_image_with_text_and_size_before_any_script_runs(
    trajectory: Trajectory, image: ObservationImage, who: Visitors
) -> None:
    page = who.viewer.get(f"/t/{trajectory.slug}").content.decode()
    (tag,) = re.findall(rf'<img[^>]*images/{image.sha256}"[^>]*>', page)
    assert 'alt="Observation of turn 1"' in tag
    width, height = shown_size(64, 48)
    assert f'width="{width}"' in tag
    assert f'height="{height}"' in tag
    assert f'data-images="/t/{trajectory.slug}/images/"' in page


def test_pages_and_scripts_show_images_at_the_same_size() -> None:
    sizes = evaluate("board/observation_images.js", "data.map(([w, h]) => shownSize(w, h))", SIZES)
    assert sizes == [list(shown_size(*size)) for size in SIZES]


def downloaded(client: Client, address: str) -> bytes:
    response = client.get(address)
    return b"".join(response.streaming_content)  # type: ignore[attr-defined]


def test_exports_keep_the_references_of_turns_to_images(
    trajectory: Trajectory, image: ObservationImage, who: Visitors
) -> None:
    base = f"/runs/{trajectory.run.slug}/export"
    lines = map(json.loads, downloaded(who.owner, f"{base}/jsonl").splitlines())
    of_lines = [turn.get("images") for line in lines for turn in line["turns"]]
    rows = pq.read_table(io.BytesIO(downloaded(who.owner, f"{base}/parquet"))).to_pylist()
    of_rows = [turn["images"] for row in rows for turn in row["turns"]]
    assert of_lines == of_rows
    assert [images for images in of_rows if images] == [[image.model_dump()]]
    document = who.owner.get(f"/t/{trajectory.slug}/export/json").json()
    assert document["turns"][0]["images"] == [image.model_dump()]
    transcript = who.owner.get(f"/t/{trajectory.slug}/export/txt").content.decode()
    assert f"[Image of 64 × 48 pixels, SHA-256 {image.sha256}]" in transcript


# Runs of other trainers


def recorded(folder: Path, images: list[bytes]) -> None:
    run = echoscope.init("Seen", folder=folder, environment="Pong")
    with run.trajectory(prompt="Play.", iteration=1) as attempt:
        attempt.turn(state="a frame", images=images, response="up")
    run.finish()


def test_a_folder_is_imported_with_its_images_and_bad_ones_are_named(
    people: People, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = image_file(colour="red"), image_file(colour="blue")
    recorded(tmp_path, [good, bad])
    (tmp_path / "images" / f"{sha256_of(bad)}.png").write_bytes(bad[:-30])
    (tmp_path / "images" / "notes.txt").write_text("not an image")
    call_command("import_journal", str(tmp_path), team=people.team.slug)
    run = Run.objects.get(title="Seen")
    assert [file.name for file in (run.folder / "images").iterdir()] == [f"{sha256_of(good)}.png"]
    assert f"{sha256_of(bad)}.png is left out: The SHA-256 of the image is" in capsys.readouterr().err


def test_live_pages_receive_the_references_with_the_turn(people: People, tmp_path: Path, who: Visitors) -> None:
    data = image_file()
    recorded(tmp_path, [data])
    call_command("import_journal", str(tmp_path), team=people.team.slug)
    run = Run.objects.get(title="Seen")
    events = [event for batch in EventBatch.objects.filter(run=run) for event in json.loads(batch.frame)["events"]]
    (turn,) = (event for event in events if event["type"] == "turn")
    assert [image["sha256"] for image in turn["images"]] == [sha256_of(data)]
    stage = Trajectory.objects.get(run=run)
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert f'src="/t/{stage.slug}/images/{sha256_of(data)}"' in page
    assert "data-images" not in page, "the stage shows other attempts later"


def test_more_images_than_pages_show_are_left_out(people: People, tmp_path: Path) -> None:
    recorded(tmp_path, [image_file()])
    journal = tmp_path / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        if line["type"] == "turn":
            line["images"] *= MAX_TURN_IMAGES + 3
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    call_command("import_journal", str(tmp_path), team=people.team.slug)
    assert len(Turn.objects.get().event["images"]) == MAX_TURN_IMAGES
