"""Images of observations sent over HTTP: kept once with their run, verified, limited, read and deleted."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.core.files.storage import storages
from django.http import HttpResponse
from PIL import Image
from pytest_django import Settings

from tests.webapp import journal_builder
from tests.webapp.api.api_clients import Callers, Program, problem
from tests.webapp.observed_images import image_file, sha256_of
from trainer.journal.observation_images import EXTENSIONS, MAX_IMAGE_BYTES, MediaType, ObservationImage
from webapp.api.models import SentJournal
from webapp.runs import object_storage
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory
from webapp.trajectories.observation_images import check_image, decoded_images, store_image
from webapp.trajectories.positions import Position

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(callers: Callers, tmp_path: Path) -> Run:
    """A run that was sent here, without images."""
    data = journal_builder.write(tmp_path, *journal_builder.whole_run(1)).read_bytes()
    return Run.objects.get(slug=callers.owner.post("/api/runs/import", data).json()["slug"])


def put(caller: Program, run: Run, data: bytes, sha256: str = "", kind: str = "image/png") -> HttpResponse:
    return caller.call("PUT", f"/api/runs/{run.slug}/images/{sha256 or sha256_of(data)}", data, Content_Type=kind)


def files(run: Run) -> list[str]:
    return sorted(path.name for path in (run.folder / "images").glob("*"))


@pytest.mark.parametrize("kind", list(EXTENSIONS))
def test_an_image_is_kept_once_under_its_hash(callers: Callers, sent: Run, kind: MediaType) -> None:
    data = image_file(90, 70, kind)
    facts = {"sha256": sha256_of(data), "media_type": kind, "width": 90, "height": 70, "bytes": len(data)}
    first, again = put(callers.owner, sent, data, kind=kind), put(callers.owner, sent, data, kind=kind)
    assert (first.status_code, first.json(), again.status_code, again.json()) == (201, facts, 200, facts)
    assert files(sent) == [f"{sha256_of(data)}.{EXTENSIONS[kind]}"]
    counted = SentJournal.objects.get(run=sent)
    assert (counted.image_count, counted.image_bytes) == (1, len(data)), "the second time it was there already"


def bomb() -> bytes:
    """A PNG of a few hundred bytes that states 8,000 × 8,000 pixels."""
    header = struct.pack(">IIBBBBB", 8000, 8000, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(100_000))), (b"IEND", b"")]
    body = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts)
    return b"\x89PNG\r\n\x1a\n" + body


SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>'
WRONG = {
    "another type": (image_file(media_type="image/jpeg"), "image/png", 422, "not a PNG image"),
    "text": (b"hello", "image/jpeg", 422, "not a JPEG image"),
    "a single byte": (b"R", "image/webp", 422, "not a WEBP image"),
    "an SVG": (SVG, "image/svg+xml", 415, "An image is image/png, image/jpeg, image/webp"),
    "an SVG that states PNG": (SVG, "image/png", 422, "not a PNG image"),
    "a truncated file": (image_file(200, 200, "image/jpeg")[:700], "image/jpeg", 422, "damaged or incomplete"),
    "a decompression bomb": (bomb(), "image/png", 422, "8,000 × 8,000 pixels"),
    "too many bytes": (image_file() + bytes(MAX_IMAGE_BYTES), "image/png", 413, "at most 3,145,728 bytes"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_such_image_is_refused_with_the_reason(callers: Callers, sent: Run, what: str) -> None:
    data, kind, status, words = WRONG[what]
    answer = put(callers.owner, sent, data, kind=kind)
    assert (answer.status_code, files(sent)) == (status, [])
    assert words in problem(answer)["message"]


def test_an_image_with_another_hash_is_refused(callers: Callers, sent: Run) -> None:
    answer = put(callers.owner, sent, image_file(colour="red"), sha256_of(image_file(colour="blue")))
    assert (answer.status_code, problem(answer)["code"], files(sent)) == (422, "bad_image", [])
    assert "not the one in its address" in problem(answer)["message"]


def test_an_address_without_a_hash_is_refused(callers: Callers, sent: Run) -> None:
    for wrong in ("..%2fjournal", "A" * 64, "a" * 63):
        assert put(callers.owner, sent, image_file(), wrong).status_code in (404, 422)
    assert files(sent) == []


def test_a_run_of_the_site_takes_no_images(callers: Callers, run: Run) -> None:
    answer = put(callers.owner, run, image_file())
    assert (answer.status_code, problem(answer)["code"]) == (409, "not_imported")


def test_number_and_size_of_a_runs_images_are_limited(callers: Callers, sent: Run, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_IMAGES_PER_RUN = 1
    assert put(callers.owner, sent, image_file(colour="red")).status_code == 201
    refused = put(callers.owner, sent, image_file(colour="blue"))
    assert (refused.status_code, problem(refused)["code"]) == (409, "quota")
    assert "has 1 images, the most" in problem(refused)["message"]
    assert put(callers.owner, sent, image_file(colour="red")).status_code == 200, "what is there needs no room"
    settings.ECHOSCOPE_MAX_IMAGES_PER_RUN, settings.ECHOSCOPE_MAX_IMAGE_MB_PER_RUN = 0, 1
    SentJournal.objects.filter(run=sent).update(image_bytes=2**20)
    refused = put(callers.owner, sent, image_file(colour="blue"))
    assert "more than 1 MB" in problem(refused)["message"]
    assert len(files(sent)) == 1


def png_with_texts(*chunks: tuple[bytes, bytes]) -> bytes:
    """An image with further chunks, before its end."""
    data = image_file()
    end = data.rindex(b"\0\0\0\0IEND")
    parts = (struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return data[:end] + b"".join(parts) + data[end:]


MEGABYTE = zlib.compress(b"a" * 2**20, 9)


@pytest.mark.parametrize(
    "chunk", [(b"zTXt", b"Comment\0\0" + MEGABYTE), (b"iTXt", b"XML\0\1\0en\0\0" + MEGABYTE)], ids=["zTXt", "iTXt"]
)
def test_compressed_texts_of_many_megabytes_are_refused(
    callers: Callers, sent: Run, chunk: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert put(callers.owner, sent, png_with_texts(chunk)).status_code == 201
    bomb = png_with_texts(*[chunk] * 54)
    assert len(bomb) < 100_000
    monkeypatch.setattr(Image, "open", lambda *arguments, **options: pytest.fail("it is decoded"))
    refused = put(callers.owner, sent, bomb)
    assert refused.status_code == 422
    assert "bytes of compressed text" in problem(refused)["message"]


def progressive_jpeg(scans: int) -> bytes:
    """A JPEG whose last scan, which changes nothing any more, is there as often as that."""
    buffer = BytesIO()
    Image.new("L", (256, 256), "gray").save(buffer, "JPEG", progressive=True)
    data = buffer.getvalue()
    first = data.count(b"\xff\xda")
    end = len(data) - 2
    return data[:end] + data[data.rindex(b"\xff\xda") : end] * (scans - first) + data[end:]


COSTLY: dict[str, tuple[MediaType, Callable[[int], bytes], str]] = {
    "scans": ("image/jpeg", progressive_jpeg, "The JPEG image has 10,000 scans"),
    "profiles": (
        "image/png",
        lambda number: png_with_texts(*[(b"iCCP", b"icc\0\0" + MEGABYTE)] * (number // 10)),
        "The PNG image holds 1,000 colour profiles",
    ),
}


@pytest.mark.parametrize("what", COSTLY)
def test_images_that_take_long_to_decode_are_refused_and_not_drawn(
    what: str, callers: Callers, sent: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, made, message = COSTLY[what]
    assert put(callers.owner, sent, made(10), kind=kind).status_code == 201
    costly = made(10_000)
    monkeypatch.setattr(Image, "open", lambda *arguments, **options: pytest.fail("it is decoded"))
    refused = put(callers.owner, sent, costly, kind=kind)
    assert refused.status_code == 422
    assert message in problem(refused)["message"]
    facts = ObservationImage(sha256=sha256_of(costly), media_type=kind, width=256, height=256, bytes=len(costly))
    store_image(sent, facts, costly)
    event = {"images": [facts.model_dump()]}
    position = SimpleNamespace(turn_data=event, board={"kind": "text"})
    assert decoded_images(sent, [cast(Position, position)]) == {}


def test_plain_texts_of_an_image_are_kept(callers: Callers, sent: Run) -> None:
    notes = [(b"tEXt", b"Workflow\0" + b"a" * 100_000), (b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + b"b" * 50_000)]
    assert put(callers.owner, sent, png_with_texts(*notes)).status_code == 201


def turn_with(data: bytes) -> dict[str, Any]:
    image = check_image(data, sha256_of(data), "image/png")
    return {"images": [image.model_dump()]}


def test_a_reader_downloads_an_image_and_a_missing_one_is_not_found(callers: Callers, sent: Run) -> None:
    seen, missing = image_file(colour="red"), image_file(colour="blue")
    put(callers.owner, sent, seen)
    trajectory, other = Trajectory.objects.filter(run=sent).order_by("-turn_count")[:2]
    for number, data in enumerate((seen, missing)):
        turn = trajectory.turns.get(number=number)
        turn.event |= turn_with(data)
        turn.save(update_fields=["event"])
    found = callers.viewer.get(f"/api/trajectories/{trajectory.slug}/images/{sha256_of(seen)}")
    assert (found.status_code, found.content, found["Content-Type"]) == (200, seen, "image/png")
    assert callers.viewer.get(f"/api/trajectories/{trajectory.slug}/images/{sha256_of(missing)}").status_code == 404
    assert callers.viewer.get(f"/api/trajectories/{other.slug}/images/{sha256_of(seen)}").status_code == 404
    turns = callers.viewer.get(f"/api/trajectories/{trajectory.slug}").json()["turns"]
    assert turns[0]["images"] == turn_with(seen)["images"]


def test_images_are_deleted_with_their_run(
    callers: Callers, sent: Run, django_capture_on_commit_callbacks: Any
) -> None:
    put(callers.owner, sent, image_file())
    assert files(sent)
    with django_capture_on_commit_callbacks(execute=True):
        answer = callers.owner.call("DELETE", f"/api/runs/{sent.slug}?confirm={sent.slug}")
    assert answer.status_code == 204
    assert not sent.folder.exists()


def test_images_are_in_object_storage_where_one_is_configured(
    callers: Callers, sent: Run, settings: Settings, tmp_path: Path, django_capture_on_commit_callbacks: Any
) -> None:
    place = tmp_path / "bucket"
    settings.STORAGES = settings.STORAGES | {
        "runs": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(place), "allow_overwrite": True},
        }
    }
    data = image_file()
    assert [put(callers.owner, sent, data).status_code for _ in range(2)] == [201, 200]
    stored = place / sent.slug / "images" / f"{sha256_of(data)}.png"
    assert (stored.read_bytes(), files(sent)) == (data, [])
    trajectory = Trajectory.objects.filter(run=sent)[0]
    turn = trajectory.turns.get(number=0)
    turn.event |= turn_with(data)
    turn.save(update_fields=["event"])
    address = f"/api/trajectories/{trajectory.slug}/images/{sha256_of(data)}"
    assert callers.viewer.get(address).content == data
    assert object_storage.image_files(storages["runs"], "another") == []
    with django_capture_on_commit_callbacks(execute=True):
        callers.owner.call("DELETE", f"/api/runs/{sent.slug}?confirm={sent.slug}")
    assert not stored.exists()
