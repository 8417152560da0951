"""Downloads: agreement with the database, and permissions."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.http import StreamingHttpResponse
from django.test import Client
from PIL import Image
from pytest_django import Settings

from tests.webapp.page_requests import Visitors, assert_private
from tests.webapp.trajectories.shared_trajectory import link, share, story, trajectory, who
from trainer.journal.protocol import JOURNAL_FILE
from webapp.runs import run_files
from webapp.runs.models import MetricPoint, Run
from webapp.trajectories.end_reasons import END_REASONS
from webapp.trajectories.exports import export_run, run_downloads, trajectory_downloads
from webapp.trajectories.models import ShareLink, Trajectory
from webapp.trajectories.render import animation, preview
from webapp.trajectories.render.drawing_queue import DRAWINGS, MAX_WAITING

__all__ = ["link", "story", "trajectory", "who"]

KINDS = ("json", "txt", "webp", "gif")
RUN_KINDS = ("parquet", "jsonl", "csv", "metrics.parquet", "metrics.csv")


def download(client: Client, address: str, **headers: str) -> bytes:
    response = client.get(address, headers=headers)
    assert response.status_code == 200, response.content[:300]
    return response.getvalue()


def turns_of(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Turns as stored in the database, without journal-only fields."""
    events = trajectory.turns.order_by("number").values_list("event", flat=True)
    return [{k: v for k, v in event.items() if k not in {"type", "seq", "time", "trajectory"}} for event in events]


def test_a_trajectory_is_downloadable_by_its_readers(trajectory: Trajectory, who: Visitors) -> None:
    for kind in KINDS:
        address = f"/t/{trajectory.slug}/export/{kind}"
        assert who.viewer.get(address).status_code == 200
    assert who.viewer.get(f"/t/{trajectory.slug}/export/docx").status_code == 404


def test_the_document_is_complete(trajectory: Trajectory, who: Visitors) -> None:
    response = who.viewer.get(f"/t/{trajectory.slug}/export/json")
    assert response["Content-Disposition"].startswith("attachment")
    document = response.json()
    assert (document["format"], document["version"]) == ("echoscope.trajectory", 1)
    assert (document["run"], document["id"], document["key"]) == (trajectory.run.slug, trajectory.slug, trajectory.key)
    assert document["turns"] == turns_of(trajectory)
    assert document["board"] == trajectory.group.board
    assert document["prompt"] == trajectory.group.prompt
    assert document["total_reward"] == trajectory.total_reward
    assert document["success"] is (trajectory.status == "success")
    assert (document["turn_count"], document["action_count"]) == (trajectory.turn_count, trajectory.action_count)


def test_a_share_link_exports_the_same_without_team_data(link: ShareLink, who: Visitors) -> None:
    inside = who.viewer.get(f"/t/{link.trajectory.slug}/export/json").json()
    outside = who.anonymous.get(f"/s/{link.token}/export/json").json()
    assert set(inside) - set(outside) == {"run", "id", "key", "attempt"}
    assert outside == {name: inside[name] for name in outside}
    for kind in KINDS:
        response = who.anonymous.get(f"/s/{link.token}/export/{kind}")
        assert response.status_code == 200
        assert link.trajectory.slug not in response["Content-Disposition"]
        assert "noindex" in response["X-Robots-Tag"]
    assert who.anonymous.get(f"/s/{link.token}/export/docx").status_code == 404


def test_the_transcript_has_every_turn_in_order(trajectory: Trajectory, who: Visitors) -> None:
    text = who.viewer.get(f"/t/{trajectory.slug}/export/txt").content.decode()
    at = 0
    for turn in turns_of(trajectory):
        at = text.index(f"Turn {turn['turn'] + 1}\n", at)
        at = text.index(turn["thought"].splitlines()[0], at)
        for action in turn["actions"]:
            at = text.index(f"    {action.get('name') or action['text']}: {action['status']}", at)


@pytest.mark.parametrize("kind", ["webp", "gif"])
def test_an_animation_has_a_frame_for_every_position(trajectory: Trajectory, who: Visitors, kind: str) -> None:
    response = who.viewer.get(f"/t/{trajectory.slug}/export/{kind}")
    assert response["Content-Type"] == f"image/{kind}"
    image = Image.open(io.BytesIO(response.content))
    wanted = sum(1 + len(turn["actions"]) for turn in turns_of(trajectory))
    # encoders may join frames that look the same, such as an ignored action's, and show them for longer
    assert wanted - sum(a["status"] != "executed" for t in turns_of(trajectory) for a in t["actions"]) <= image.n_frames
    assert image.n_frames <= wanted
    assert image.size == (720, 400)
    assert image.info["loop"] == 0
    again = who.viewer.get(f"/t/{trajectory.slug}/export/{kind}", headers={"if-none-match": response["ETag"]})
    assert again.status_code == 304


def test_a_too_long_animation_is_refused_with_a_reason(
    trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(animation, "MAX_FRAMES", 2)
    response = who.viewer.get(f"/t/{trajectory.slug}/export/gif")
    assert response.status_code == 413
    assert "The JSON and text exports are complete." in response.content.decode()


def test_an_animation_that_has_to_wait_too_long_is_refused(
    trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DRAWINGS, "timeout", 0.01)
    with DRAWINGS._slot:
        response = who.viewer.get(f"/t/{trajectory.slug}/export/webp")
        picture = who.viewer.get(f"/t/{trajectory.slug}/picture.png")
    for refused in (response, picture):
        assert (refused.status_code, refused["Retry-After"]) == (503, "10")
        assert "max-age=300" not in refused.get("Cache-Control", "")
    assert who.viewer.get(f"/t/{trajectory.slug}/export/webp").status_code == 200
    assert who.viewer.get(f"/t/{trajectory.slug}/picture.png").status_code == 200


def test_a_finished_animation_is_not_drawn_again(
    trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = who.viewer.get(f"/t/{trajectory.slug}/export/gif")
    monkeypatch.setattr(DRAWINGS, "timeout", 0.0)
    with DRAWINGS._slot:
        again = who.viewer.get(f"/t/{trajectory.slug}/export/gif?anything")
    assert (again.status_code, again.content) == (200, first.content)


def test_turns_are_loaded_only_for_what_will_be_drawn(
    trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = [f"/t/{trajectory.slug}/export/gif", f"/t/{trajectory.slug}/picture.png"]
    for address in addresses:
        assert who.viewer.get(address).status_code == 200
    for module, name in ((trajectory_downloads, "shared_data"), (preview, "player_data")):
        monkeypatch.setattr(module, name, lambda trajectory: pytest.fail("its turns are loaded"))
    for address in addresses:
        assert who.viewer.get(address).status_code == 200, "kept"
    DRAWINGS.files.clear()
    with contextlib.ExitStack() as others:
        for _ in range(MAX_WAITING + 1):
            others.enter_context(DRAWINGS.place())
        for address in addresses:
            assert who.viewer.get(address).status_code == 503, "refused"


def test_a_run_is_downloadable_by_its_readers(run: Run, trajectory: Trajectory, who: Visitors) -> None:
    for kind in (*RUN_KINDS, "journal"):
        address = f"/runs/{run.slug}/export/{kind}"
        assert who.viewer.get(address).status_code == 200
        assert address in who.viewer.get(f"/runs/{run.slug}/configuration").content.decode()
    assert who.viewer.get(f"/runs/{run.slug}/export/xml").status_code == 404
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    for kind in RUN_KINDS:
        assert who.anonymous.get(f"/runs/{run.slug}/export/{kind}").status_code == 200
    assert_private(f"/runs/{run.slug}/export/journal", who)  # it contains data about the host


def test_parquet_round_trips_the_database(run: Run, trajectory: Trajectory, who: Visitors) -> None:
    data = download(who.viewer, f"/runs/{run.slug}/export/parquet")
    table = pq.read_table(io.BytesIO(data))
    assert table.schema.equals(export_run.TRAJECTORIES)
    rows = table.to_pylist(maps_as_pydicts="strict")
    assert [row["id"] for row in rows] == list(run.trajectories.order_by("pk").values_list("slug", flat=True))
    for row in rows:
        kept = Trajectory.objects.select_related("group").get(slug=row["id"])
        assert row["success"] is (kept.status == "success")
        assert (row["end"], row["total_reward"], row["iteration"]) == (kept.end, kept.total_reward, kept.iteration)
        assert (row["group"], row["group_kept"], row["seed"]) == (kept.group.number, kept.group.kept, kept.group.seed)
        assert json.loads(row["board"]) == kept.group.board
        lost = kept.lost_at or {}
        assert (row["lost_turn"], row["lost_reason"]) == (lost.get("turn"), lost.get("reason"))
        for turn, exported in zip(turns_of(kept), row["turns"], strict=True):
            assert {name: exported[name] for name in ("thought", "state", "answer", "reward", "terms", "tokens")} == {
                name: turn[name] for name in ("thought", "state", "answer", "reward", "terms", "tokens")
            }
            for action, record in zip(turn["actions"], exported["actions"], strict=True):
                assert (record["text"], record["status"]) == (action["text"], action["status"])
                assert json.loads(record["board"] or "null") == action.get("board")


def test_json_lines_equal_the_trajectory_documents(run: Run, trajectory: Trajectory, who: Visitors) -> None:
    lines = download(who.viewer, f"/runs/{run.slug}/export/jsonl").decode().splitlines()
    assert len(lines) == run.trajectories.count()
    exported = {line["id"]: line for line in map(json.loads, lines)}
    alone = who.viewer.get(f"/t/{trajectory.slug}/export/json").json()
    assert set(alone.pop("tokens")) == {"turns", "note"}  # too many for all of a run
    assert (type(alone.pop("marks")), "verdict" in alone) == (list, True)  # of single documents too
    alone.pop("verdict")
    assert [turn.pop("marks") for turn in exported[trajectory.slug]["turns"]] == [None] * len(alone["turns"])
    assert exported[trajectory.slug] == alone


def test_text_is_compressed_for_clients_that_accept_it(run: Run, trajectory: Trajectory, who: Visitors) -> None:
    address = f"/runs/{run.slug}/export/jsonl"
    plain = download(who.viewer, address)
    packed = who.viewer.get(address, headers={"accept-encoding": "br, gzip;q=0.5"})
    assert packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.getvalue()) == plain
    assert len(packed.getvalue()) < len(plain) / 4
    refused = who.viewer.get(address, headers={"accept-encoding": "gzip;q=0, br"})
    assert "Content-Encoding" not in refused
    assert "Content-Encoding" not in who.viewer.get(
        f"/runs/{run.slug}/export/parquet", headers={"accept-encoding": "gzip"}
    )


def test_pages_and_row_groups_are_complete(
    run: Run, trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = download(who.viewer, f"/runs/{run.slug}/export/jsonl")
    points = download(who.viewer, f"/runs/{run.slug}/export/metrics.csv")
    monkeypatch.setattr(export_run, "ROW_GROUP", 1)
    monkeypatch.setattr(export_run, "METRIC_BATCH_SIZE", 3)
    assert download(who.viewer, f"/runs/{run.slug}/export/jsonl") == whole
    assert download(who.viewer, f"/runs/{run.slug}/export/metrics.csv") == points
    file = pq.ParquetFile(io.BytesIO(download(who.viewer, f"/runs/{run.slug}/export/parquet")))
    assert file.num_row_groups == run.trajectories.count() == file.metadata.num_rows


def test_only_one_page_is_read_before_the_first_bytes_are_sent(
    run: Run, trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_run, "ROW_GROUP", 1)
    read: list[int] = []
    documents = export_run.documents

    def counted(export: export_run.Export) -> Any:
        for page in documents(export):
            read.append(len(page))
            yield page

    monkeypatch.setattr(export_run, "documents", counted)
    for kind in ("jsonl", "parquet"):
        read.clear()
        response = who.viewer.get(f"/runs/{run.slug}/export/{kind}")
        assert isinstance(response, StreamingHttpResponse)
        chunks = iter(response)
        assert next(chunks)
        assert read == [1]
        assert 1 + sum(1 for _ in chunks) >= len(read) > 1


def test_metrics_round_trip_the_database(run: Run, trajectory: Trajectory, who: Visitors) -> None:
    columns = ("name", "iteration", "tokens", "seconds", "value")
    kept = list(MetricPoint.objects.filter(run=run).order_by("name", "iteration").values(*columns))
    assert kept
    table = pq.read_table(io.BytesIO(download(who.viewer, f"/runs/{run.slug}/export/metrics.parquet")))
    assert table.to_pylist() == kept
    text = download(who.viewer, f"/runs/{run.slug}/export/metrics.csv").decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["name"], int(row["iteration"]), float(row["value"])) for row in rows] == [
        (point["name"], point["iteration"], point["value"]) for point in kept
    ]


def test_an_empty_run_exports_empty_files_with_columns(run: Run, who: Visitors) -> None:
    table = pq.read_table(io.BytesIO(download(who.viewer, f"/runs/{run.slug}/export/parquet")))
    assert (table.num_rows, table.schema) == (0, export_run.TRAJECTORIES)
    assert download(who.viewer, f"/runs/{run.slug}/export/jsonl") == b""
    assert download(who.viewer, f"/runs/{run.slug}/export/metrics.csv") == b"name,iteration,tokens,seconds,value\r\n"


@pytest.mark.usefixtures("own_files")
def test_the_journal_is_exported_verbatim_up_to_its_last_complete_line(
    run: Run, trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    path: Path = run.folder / JOURNAL_FILE
    written = path.read_bytes()
    path.write_bytes(written + b'{"type":"half')
    monkeypatch.setattr(run_files, "BLOCK", 1000)
    assert download(who.viewer, f"/runs/{run.slug}/export/journal") == written
    path.unlink()
    gone = who.viewer.get(f"/runs/{run.slug}/export/journal")
    assert gone.status_code == 404
    assert "not on this machine" in gone.content.decode()


def test_only_what_was_found_is_exported(run: Run, trajectory: Trajectory, who: Visitors) -> None:
    wanted = set(run.trajectories.filter(status="failed").values_list("slug", flat=True))
    assert 0 < len(wanted) < run.trajectories.count()
    query = "outcome=failed&sort=-reward"
    lines = download(who.viewer, f"/runs/{run.slug}/export/jsonl?{query}").decode().splitlines()
    assert {json.loads(line)["id"] for line in lines} == wanted
    table = pq.read_table(io.BytesIO(download(who.viewer, f"/runs/{run.slug}/export/parquet?{query}")))
    assert set(table.column("id").to_pylist()) == wanted
    text = download(who.viewer, f"/runs/{run.slug}/export/csv?{query}").decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["id"] for row in rows} == wanted
    assert {row["end_reason"] for row in rows} <= set(END_REASONS)
    assert "thought" not in text.splitlines()[0]


def test_an_invalid_filter_exports_nothing(run: Run, trajectory: Trajectory, who: Visitors) -> None:
    response = who.viewer.get(f"/runs/{run.slug}/export/jsonl?iteration=two")
    assert response.status_code == 400
    assert "Nothing was exported. iteration: “two” is not a whole number" in response.content.decode()
    response = who.viewer.get(f"/runs/{run.slug}/export/csv?turns_min=5&turns_max=2")
    assert "Nothing was exported. turns_max: Must be 5 or more.<" in "".join(response.content.decode().split("\n"))


def test_metrics_are_exported_whatever_the_filters_of_trajectories_are(
    run: Run, trajectory: Trajectory, who: Visitors
) -> None:
    address = f"/runs/{run.slug}/export/metrics.csv"
    assert download(who.viewer, f"{address}?iteration=two") == download(who.viewer, address)


def test_stars_and_tags_of_the_team_do_not_filter_exports_of_others(
    run: Run, trajectory: Trajectory, who: Visitors
) -> None:
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    assert download(who.viewer, f"/runs/{run.slug}/export/jsonl?starred=yes") == b""
    outside = download(who.anonymous, f"/runs/{run.slug}/export/jsonl?starred=yes")
    assert len(outside.splitlines()) == run.trajectories.count()


def test_a_too_large_export_is_refused_before_it_starts(
    run: Run, trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.ECHOSCOPE_MAX_EXPORT_MB = 1
    whole = download(who.viewer, f"/runs/{run.slug}/export/jsonl")
    chosen = Trajectory.objects.filter(run=run)
    assert 0.5 < export_run.estimated_bytes(chosen) / len(whole) < 2
    monkeypatch.setattr(run_downloads, "MEGABYTE", 1000)
    response = who.viewer.get(f"/runs/{run.slug}/export/jsonl")
    assert response.status_code == 413
    assert "at most 1 MB are exported at once (ECHOSCOPE_MAX_EXPORT_MB)" in response.content.decode()
    assert who.viewer.get(f"/runs/{run.slug}/export/metrics.csv").status_code == 200
    settings.ECHOSCOPE_MAX_EXPORT_MB = 0
    assert download(who.viewer, f"/runs/{run.slug}/export/jsonl") == whole


def test_an_export_that_outgrows_its_estimate_breaks_off(
    run: Run, trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.ECHOSCOPE_MAX_EXPORT_MB = 1
    monkeypatch.setattr(run_downloads, "MEGABYTE", 1000)
    monkeypatch.setattr(export_run, "estimated_bytes", lambda trajectories: 10)
    response = who.viewer.get(f"/runs/{run.slug}/export/jsonl")
    assert response.status_code == 200
    with pytest.raises(run_downloads.ExportTooLarge):
        response.getvalue()


def test_pages_end_where_their_turns_are_long(
    run: Run, trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = download(who.viewer, f"/runs/{run.slug}/export/jsonl")
    monkeypatch.setattr(export_run, "PAGE_LENGTH", 1)
    monkeypatch.setattr(export_run, "TURNS_READ", 2)
    export = export_run.Export(run, True, Trajectory.objects.filter(run=run))
    assert max(len(page) for page in export_run.documents(export)) < run.trajectories.count()
    assert download(who.viewer, f"/runs/{run.slug}/export/jsonl") == whole


def test_turns_beyond_the_length_of_a_trajectory_are_left_out(
    run: Run, trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_run, "MAX_TURNS_LENGTH", 10)
    lines = download(who.viewer, f"/runs/{run.slug}/export/jsonl").decode().splitlines()
    assert len(lines) == run.trajectories.count()
    assert all(json.loads(line)["turns"] == [] for line in lines)


def test_a_long_environment_name_gives_a_valid_header(trajectory: Trajectory, who: Visitors) -> None:
    trajectory.group.environment = 'Gärten "neu"\r\nSet-Cookie: x'
    trajectory.group.save()
    response = who.viewer.get(f"/t/{trajectory.slug}/export/txt")
    assert response.status_code == 200
    assert "Set-Cookie" not in response.headers
    assert share(who.owner, trajectory).pk
