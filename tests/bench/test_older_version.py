"""Versions that can run beside this one: their programs use the tables that this version has migrated."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench.soak.older_version import CannotRunBeside, extract, table_differences
from webapp.services.addresses import ROOT

NAME = "webapp/runs/migrations/0002_change.py"
MIGRATION = """
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_initial")]

    operations = [{operations}]
"""


@pytest.mark.parametrize(
    ("operations", "named"),
    [
        ('migrations.AddField("run", "note", models.TextField(null=True)), migrations.AddIndex("run", index)', []),
        ('migrations.AddField("run", "note", models.TextField(db_default="")), migrations.CreateModel("note")', []),
        ('migrations.SeparateDatabaseAndState(state_operations=[migrations.AlterField("run", "a", field)])', []),
        ("migrations.SeparateDatabaseAndState(database_operations=[a], state_operations=[b])", ["Separate"]),
        ('migrations.AddField("run", "note", models.TextField(default=""))', ["AddField"]),
        ('migrations.RenameField("run", "note", "text"), migrations.RemoveField("run", "a")', ["Rename", "Remove"]),
    ],
)
def test_only_additions_leave_the_tables_usable(tmp_path: Path, operations: str, named: list[str]) -> None:
    older, newer = tmp_path / "older", tmp_path / "newer"
    for tree in (older, newer):
        (tree / NAME).parent.mkdir(parents=True)
    (newer / NAME).write_text(MIGRATION.format(operations=operations))
    differences = list(table_differences(older, newer))
    assert len(differences) == len(named)
    assert all(name in difference for name, difference in zip(named, differences, strict=True))
    if named:
        (older / NAME).write_text(MIGRATION.format(operations=""))
        assert list(table_differences(older, newer)) == [f"{NAME} has changed since"]
        assert list(table_differences(newer, tmp_path)) == [f"this version has no {NAME}"]


def test_a_version_is_extracted_with_its_commands_or_refused_in_a_sentence(tmp_path: Path) -> None:
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True).returncode:
        pytest.skip("this copy has no git history")
    version = extract("HEAD", tmp_path / "same")
    assert (version.folder / "webapp" / "asgi.py").is_file()
    assert "webapp.asgi:application" in version.web
    assert "worker" in version.worker
    with pytest.raises(CannotRunBeside, match="no-such-revision cannot be read from git"):
        extract("no-such-revision", tmp_path / "none")
