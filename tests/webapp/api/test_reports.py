"""Reports over the API: written, listed page by page, changed only over the version that was read."""

from __future__ import annotations

from pytest_django import Settings

from tests.webapp.api.api_clients import Callers, problem
from tests.webapp.conftest import People
from webapp.reports.models import Report


def test_a_report_is_written_read_and_changed(callers: Callers, people: People) -> None:
    made = callers.owner.post("/api/reports", {"title": "What broke", "body": "A *box*.", "visibility": "link"})
    assert made.status_code == 201, made.content
    report = made.json()
    assert (report["version"], report["author"], report["visibility"]) == (1, "ada", "link")
    path = f"/api/reports/{report['slug']}"
    assert callers.viewer.get(path).json()["body"] == "A *box*."
    changed = callers.owner.call("PATCH", path, {"body": "Two boxes.", "version": 1})
    assert changed.status_code == 200, changed.content
    assert (changed.json()["version"], changed.json()["title"]) == (2, "What broke")
    assert [one.body for one in Report.objects.get().revisions.all()] == ["Two boxes.", "A *box*."]


def test_a_stale_version_is_a_conflict_that_names_the_current_one(callers: Callers, people: People) -> None:
    report = callers.owner.post("/api/reports", {"title": "T"}).json()
    path = f"/api/reports/{report['slug']}"
    assert callers.owner.call("PATCH", path, {"body": "a", "version": 1}).status_code == 200
    late = callers.owner.call("PATCH", path, {"body": "b", "version": 1, "visibility": "public"})
    assert late.status_code == 409
    assert problem(late)["details"] == {"version": 2}
    assert "ada saved version 2" in problem(late)["message"]
    assert callers.owner.get(path).json()["visibility"] == "team", "nothing of a refused change is saved"
    missing = callers.owner.call("PATCH", path, {"body": "b"})
    assert (missing.status_code, list(problem(missing)["fields"])) == (422, ["version"])


def test_lists_are_filtered_and_read_page_by_page(callers: Callers, people: People) -> None:
    for number in range(3):
        callers.owner.post("/api/reports", {"title": f"Report {number}", "body": "box" if number else ""})
    first = callers.viewer.get("/api/reports?limit=2").json()
    assert [item["title"] for item in first["items"]] == ["Report 2", "Report 1"]
    assert "body" not in first["items"][0]
    rest = callers.viewer.get(f"/api/reports?limit=2&cursor={first['next_cursor']}").json()
    assert [item["title"] for item in rest["items"]] == ["Report 0"]
    assert rest["next_cursor"] is None
    assert len(callers.viewer.get("/api/reports?text=BOX").json()["items"]) == 2
    assert callers.outsider.get("/api/reports").json()["items"] == []


def test_quotas_are_conflicts(callers: Callers, people: People, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_REPORT_CHARACTERS = 5
    refused = callers.owner.post("/api/reports", {"title": "T", "body": "123456"})
    assert (refused.status_code, problem(refused)["code"]) == (409, "quota")
    assert "at most 5 characters" in problem(refused)["message"]
