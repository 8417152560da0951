"""Images of observations: recorded in every form that trainers have, sent with their run, or refused with words."""

from __future__ import annotations

import json
import os
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pytest_django.live_server_helper import LiveServer

import echoscope
from echoscope import journal as sending
from echoscope.cli import main
from echoscope.client import Client
from echoscope.errors import EchoscopeError, Invalid
from echoscope.recording import observation_images as recording
from echoscope.recording.image_header import read_header
from tests.webapp.observed_images import image_file, sha256_of
from trainer.journal import observation_images as contract
from trainer.journal.events import Turn
from trainer.journal.reader import read
from webapp.api.models import SentJournal
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory


def record(folder: Path, *turns: Any) -> list[Turn]:
    """Record a run with one turn for each element, which is what the turn saw. Returns the turns of the journal."""
    run = echoscope.init("Seen", folder=folder, environment="Pong")
    with run.trajectory(prompt="Play.", iteration=1) as attempt:
        for images in turns:
            attempt.turn(state="a frame", images=images, response="up", actions=["up"])
    run.finish()
    return [event for event in read(folder / "journal.jsonl") if isinstance(event, Turn)]


def pixels(width: int = 20, height: int = 12) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)


def decoded(folder: Path, turn: Turn) -> np.ndarray[Any, Any]:
    assert turn.images is not None
    return np.asarray(Image.open(folder / contract.image_path(turn.images[0].sha256, turn.images[0].media_type)))


def test_bytes_paths_pillow_images_and_arrays_are_recorded_and_the_same_pixels_come_back(tmp_path: Path) -> None:
    array = pixels()
    file = tmp_path / "frame.webp"
    Image.fromarray(array).save(file, lossless=True)
    jpeg = image_file(90, 70, "image/jpeg")
    turns = record(tmp_path / "run", array, Image.fromarray(array), file, str(file), jpeg, bytearray(jpeg), ())
    kinds = ["image/png", "image/png", "image/webp", "image/webp", "image/jpeg", "image/jpeg"]
    assert [turn.images[0].media_type for turn in turns[:-1] if turn.images] == kinds
    for turn in turns[:4]:
        assert turn.images is not None
        assert (turn.images[0].width, turn.images[0].height) == (20, 12)
        assert (decoded(tmp_path / "run", turn) == array).all()
    assert turns[-1].images is None, "a turn without images says nothing about them"


def test_the_same_image_is_kept_once_and_several_are_kept_in_order(tmp_path: Path) -> None:
    red, blue = image_file(colour="red"), image_file(colour="blue")
    first, second = record(tmp_path, [red, blue], (blue,))
    assert [image.sha256 for image in first.images or ()] == [sha256_of(red), sha256_of(blue)]
    assert second.images == (first.images or [])[1:]
    names = sorted(file.name for file in (tmp_path / "images").iterdir())
    assert names == sorted(f"{sha256_of(data)}.png" for data in (red, blue))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "HSV", "F"])
def test_images_of_pillow_of_any_mode_become_png(mode: str, tmp_path: Path) -> None:
    base = Image.fromarray(pixels())
    (turn,) = record(tmp_path, base.convert("L").convert("F") if mode == "F" else base.convert(mode))
    assert turn.images is not None
    assert (turn.images[0].media_type, turn.images[0].width) == ("image/png", 20)
    assert decoded(tmp_path, turn).size


WRONG: dict[str, tuple[Any, str]] = {
    "a number": (3, "not int"),
    "an animation's format": (b"GIF89a" + bytes(40), "none of PNG, JPEG and WebP"),
    "an SVG": (b"<svg/>", "none of PNG, JPEG and WebP"),
    "nothing": (b"", "none of PNG, JPEG and WebP"),
    "a truncated PNG": (image_file()[:-20], "incomplete PNG"),
    "a truncated JPEG": (image_file(media_type="image/jpeg")[:-2], "incomplete JPEG"),
    "a truncated WebP": (image_file(media_type="image/webp")[:-9], "incomplete WebP"),
    "too many bytes": (image_file() + bytes(recording.MAX_BYTES), "at most 3,145,728 are recorded"),
    "too many pixels": (np.zeros((5000, 5000, 3), np.uint8), "5,000 × 5,000 pixels"),
    "too wide": (image_file(9000, 2), "9,000 × 2 pixels"),
    "an array of floats": (np.zeros((4, 4, 3)), "not 4 × 4 × 3 of float64"),
    "an array with four channels": (np.zeros((4, 4, 4), np.uint8), "not 4 × 4 × 4 of uint8"),
    "an empty array": (np.zeros((0, 4, 3), np.uint8), "4 × 0 pixels"),
    "too many images": ([image_file()] * 9, "at most 8 images, not 9"),
    "a pipe": (f"/dev/fd/{os.pipe()[0]}", "There is no image /dev/fd/"),
    "a missing file": (Path("nowhere.png"), "There is no image nowhere.png"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_turn_is_recorded_without_an_image_that_cannot_be_and_the_reason_is_named(what: str, tmp_path: Path) -> None:
    images, words = WRONG[what]
    run = echoscope.init("Seen", folder=tmp_path)
    attempt = run.trajectory(prompt="Play.", iteration=1)
    with pytest.warns(RuntimeWarning, match=f"^The images of a turn are not recorded: .*{words}"):
        attempt.turn(state="a frame", images=images, response="up")
    *_, turn = read(tmp_path / "journal.jsonl")
    assert (turn.type, turn.state, turn.images) == ("turn", "a frame", None)
    assert not list(tmp_path.glob("images/*"))


@pytest.mark.parametrize("kind", list(contract.EXTENSIONS))
def test_headers_state_what_a_decoder_finds(kind: contract.MediaType) -> None:
    for size in ((1, 1), (17, 9), (640, 3)):
        header = read_header(image_file(*size, media_type=kind))
        assert header == (kind, *size)
    lossless, with_metadata = BytesIO(), BytesIO()
    Image.fromarray(pixels()).save(lossless, "WEBP", lossless=True)
    Image.fromarray(pixels()).save(with_metadata, "WEBP", exif=b"Exif\0\0MM\0*")
    assert [read_header(each.getvalue())[1:] for each in (lossless, with_metadata)] == [(20, 12)] * 2
    progressive = BytesIO()
    Image.fromarray(pixels()).save(progressive, "JPEG", progressive=True)
    assert read_header(progressive.getvalue()) == ("image/jpeg", 20, 12)


def test_the_recorder_has_the_limits_and_names_of_the_site() -> None:
    assert (recording.MAX_BYTES, recording.MAX_SIDE) == (contract.MAX_IMAGE_BYTES, contract.MAX_IMAGE_SIDE)
    assert (recording.MAX_PIXELS, recording.MAX_IMAGES) == (contract.MAX_IMAGE_PIXELS, contract.MAX_TURN_IMAGES)
    assert (recording.FOLDER, recording.EXTENSIONS) == (contract.IMAGES_FOLDER, contract.EXTENSIONS)


# With a site


def stored(run: Run) -> list[str]:
    return sorted(file.stem for file in (run.folder / "images").glob("*"))


def test_images_are_sent_with_their_run_and_a_second_push_sends_new_ones_only(client: Client, tmp_path: Path) -> None:
    red, blue = image_file(colour="red"), image_file(colour="blue")
    record(tmp_path, red, [red, blue])
    pushed = client.push_journal(tmp_path)
    run = Run.objects.get(slug=pushed.slug)
    assert (pushed.journal.problem, stored(run)) == ("", sorted(map(sha256_of, (red, blue))))
    assert SentJournal.objects.get(run=run).image_count == 2
    trajectory = Trajectory.objects.filter(run=run).order_by("pk")[0]
    saved = client.image(trajectory.slug, sha256_of(blue), tmp_path / "saved.png")
    assert saved.read_bytes() == blue
    record(tmp_path, image_file(colour="green"))
    client.push_journal(tmp_path)
    assert SentJournal.objects.get(run=run).image_count == 3


def test_images_are_sent_while_the_run_grows(
    live_server: LiveServer, secret: str, people_on_site: object, tmp_path: Path
) -> None:
    run = echoscope.init("Seen", folder=tmp_path, environment="Pong", url=live_server.url, token=secret)
    with run.trajectory(prompt="Play.", iteration=1) as attempt:
        attempt.turn(state="a frame", images=pixels(), response="up")
    run.finish()
    sent = Run.objects.get(title="Seen")
    (turn,) = (event for event in read(tmp_path / "journal.jsonl") if isinstance(event, Turn))
    assert (sent.state, stored(sent)) == ("finished", [image.sha256 for image in turn.images or ()])


def broken_run(folder: Path) -> Path:
    """A recorded run whose second image was lost, and its third overwritten, before they were sent."""
    files = [image_file(colour=colour) for colour in ("red", "blue", "green", "white")]
    record(folder, *files)
    (folder / "images" / f"{sha256_of(files[1])}.png").unlink()
    (folder / "images" / f"{sha256_of(files[2])}.png").write_bytes(image_file(colour="black"))
    return folder


def test_a_missing_image_ends_the_upload_with_what_to_do(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "CHUNK_BYTES", 600)  # a line or two
    with pytest.raises(EchoscopeError, match=r"The image .*png is missing. Put it back"):
        client.push_journal(broken_run(tmp_path))
    run = Run.objects.get(title="Seen")
    assert run.state == "stopped"
    assert [trajectory.turn_count for trajectory in Trajectory.objects.filter(run=run)] == [1], (
        "the turn before is there"
    )


def test_an_image_that_does_not_match_its_hash_is_named(client: Client, tmp_path: Path) -> None:
    record(tmp_path, image_file(colour="red"))
    (tmp_path / "images" / f"{sha256_of(image_file(colour='red'))}.png").write_bytes(image_file(colour="blue"))
    with pytest.raises(Invalid, match=r"does not take the image .*: The SHA-256 of the image is") as refused:
        client.push_journal(tmp_path)
    assert refused.value.code == "bad_image"


def test_the_command_skips_bad_images_and_names_them(
    live_server: LiveServer, secret: str, people_on_site: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--url", live_server.url, "--token", secret, "push", str(broken_run(tmp_path)), "--skip-bad-images"]
    main(command)
    run = Run.objects.get(title="Seen")
    assert stored(run) == sorted(sha256_of(image_file(colour=colour)) for colour in ("red", "white"))
    assert run.state == "finished"
    printed = capsys.readouterr().err
    assert "is missing" in printed
    assert "The SHA-256 of the image is" in printed


def test_a_live_run_is_sent_without_what_the_site_refuses(
    live_server: LiveServer, secret: str, people_on_site: object, tmp_path: Path, settings: Any
) -> None:
    settings.ECHOSCOPE_MAX_IMAGES_PER_RUN = 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = echoscope.init("Seen", folder=tmp_path, url=live_server.url, token=secret)
        with run.trajectory(prompt="Play.", iteration=1) as attempt:
            for colour in ("red", "blue", "green"):
                attempt.turn(state="a frame", images=image_file(colour=colour), response="up")
        run.finish()
    sent = Run.objects.get(title="Seen")
    assert (sent.state, len(stored(sent))) == ("finished", 1)
    words = [str(warning.message) for warning in caught if "does not take the image" in str(warning.message)]
    assert len(words) == 1, "one that is over the quota is enough"
    assert "the most that a run may have here" in words[0]


def test_a_line_names_only_files_of_images(client: Client, tmp_path: Path) -> None:
    """A journal of another program must not make the command send other files of this machine."""
    secret_file = tmp_path / "secret.png"
    secret_file.write_bytes(image_file())
    folder = tmp_path / "run"
    record(folder, image_file(colour="red"))
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    for line in lines:
        for image in line.get("images") or ():
            image["sha256"] = "../../secret"
    (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(EchoscopeError, match="cannot be read further"):
        client.push_journal(folder)
    assert stored(Run.objects.get(title="Seen")) == []
