"""Annotations, alert rules, exports and comparisons with the client, against a real site."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from echoscope.client import Client
from echoscope.errors import Invalid, NotFound
from tests.webapp.explorer.test_compare import add_evaluations
from tests.webapp.page_requests import play
from webapp.runs.models import Run


def test_a_trajectory_is_starred_tagged_and_commented(client: Client, run_on_site: Run) -> None:
    slug = next(client.trajectories(play(run_on_site, 1).slug)).slug
    notes = client.annotations
    assert notes.star(slug).starred
    assert notes.tag(slug, "Reward hack").tags == ["reward hack"]
    comment = notes.comment(slug, "Why?", turn=0)
    assert notes.edit(comment.slug, "Why not?").text == "Why not?"
    assert [one.text for one in notes.get(slug).comments] == ["Why not?"]
    notes.delete(comment.slug)
    assert (notes.unstar(slug).stars, notes.untag(slug, "reward hack").tags, notes.get(slug).comments) == ([], [], [])


def test_an_alert_rule_is_created_tested_changed_and_deleted(client: Client, run_on_site: Run) -> None:
    rule = client.alerts.create("Failures", ["failed"])
    assert client.alerts.test(rule.slug).event == "test"
    assert [one.event for one in client.alerts.deliveries(rule.slug)] == ["test"]
    client.alerts.update(rule.slug, channel="webhook", url="https://hooks.example.org/")
    replaced = client.alerts.rotate_secret(rule.slug)
    assert (replaced.secret or "").startswith("whsec_")
    assert replaced.former_secrets_until is not None
    assert client.alerts.end_former_secrets(rule.slug).former_secrets_until is None
    assert client.alerts.update(rule.slug, enabled=False).enabled is False
    assert [one.name for one in client.alerts.list()] == ["Failures"]
    client.alerts.delete(rule.slug)
    with pytest.raises(NotFound, match=rule.slug):
        client.alerts.get(rule.slug)
    with pytest.raises(Invalid) as refused:
        client.alerts.create("Failures", ["failed"], channel="email")
    assert refused.value.fields == {"addresses": "enter at least one address"}


def test_files_are_saved_and_runs_compared(client: Client, run_on_site: Run, tmp_path: Path) -> None:
    add_evaluations(run := run_on_site)
    lines = client.export(run.slug, "jsonl", tmp_path / "some.jsonl", split="eval").read_text().splitlines()
    assert {json.loads(line)["split"] for line in lines} == {"eval"}
    slug = json.loads(lines[0])["id"]
    assert client.export_trajectory(slug, "txt", tmp_path / "one.txt").read_text().startswith("Sokoban")
    assert [one.slug for one in client.compare([run.slug]).runs] == [run.slug]
    assert client.compare_puzzle([run.slug], "fixed").attempts[0].run == run.slug
    with pytest.raises(NotFound, match="holds no generalization matrix"):
        client.generalization(run.slug)
