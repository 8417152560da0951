"""Run folders are opened by one module: a path into them, opened elsewhere, would follow what a trainer put there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPENER = "webapp/runs/untrusted_folder.py"
CONTRACT = "trainer.journal.protocol"
RUN_PATHS = {"folder", "_folder", "log", "config"}
"""Attributes of `Run`, `RunFiles` and the classes that have one of them. An UntrustedFolder is called `inside`."""
FILE_METHODS = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "touch", "unlink", "rename", "replace", "rmdir"),
    *("exists", "is_file", "is_symlink", "stat", "lstat", "chmod", "symlink_to", "hardlink_to", "samefile"),
    *("glob", "rglob", "iterdir", "walk", "joinpath", "with_suffix"),
}
FILE_MODULES = {"os", "shutil", "tempfile", "zipfile", "tarfile", "builtins", "io"}
OTHER_FOLDERS = {
    "webapp/core/private_files.py": "the data folder",
    "webapp/ingest/recorded_runs.py": "a temporary folder for a recording that ships with the product",
    "webapp/services/postgres.py": "the folder of the database",
    "webapp/services/redis.py": "the folder of Redis",
    "webapp/services/unprivileged_user.py": "folders of programs",
    "webapp/services/backup/nightly.py": "the folder of archives",
    "webapp/services/backup/preview_conversion.py": "extracted from an archive, which has plain files only",
    "webapp/services/backup/site_restore.py": "extracted from an archive, which has plain files only",
    "webapp/worker/downloads/models_folder.py": "the models folder",
    "webapp/worker/files/data_folder.py": "the data folder",
}
"""Modules whose folders are no run's, and which folders these are."""


def is_run_path(node: ast.expr) -> bool:
    """Whether an expression is, by its name, a path of or into a run's folder."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return is_run_path(node.left) or is_run_path(node.right)
    if isinstance(node, ast.Attribute):
        return node.attr in RUN_PATHS
    return isinstance(node, ast.Name) and node.id == "folder"


def offences(text: str) -> Iterator[int]:
    """Lines that open, look up or join paths of run folders, or join a file name of the contract to any path."""
    tree = ast.parse(text)
    contract = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == CONTRACT
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            by_contract = isinstance(node.right, ast.Name) and node.right.id in contract
            if by_contract or is_run_path(node.left):
                yield node.lineno
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in FILE_METHODS and is_run_path(function.value):
            yield node.lineno
        module = function.value if isinstance(function, ast.Attribute) else function
        if isinstance(module, ast.Name) and module.id in {*FILE_MODULES, "open"} and any(map(is_run_path, node.args)):
            yield node.lineno


def test_only_one_module_opens_files_of_run_folders() -> None:
    found = []
    for path in sorted((ROOT / "webapp").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name != OPENER and name not in OTHER_FOLDERS:
            found += [f"{name}:{line}" for line in sorted(set(offences(path.read_text(encoding="utf-8"))))]
    assert found == [], f"use UntrustedFolder ({OPENER})"


def test_each_exemption_is_needed() -> None:
    for name in OTHER_FOLDERS:
        assert list(offences((ROOT / name).read_text(encoding="utf-8"))), name


@pytest.mark.parametrize(
    "line",
    [
        "(run.folder / 'log.txt').open('rb')",
        "run.folder.joinpath(name)",
        "sorted(run.folder.rglob('*'))",
        "files.log.read_text()",
        "open(files.config)",
        "shutil.rmtree(self.files.folder)",
        "os.scandir(folder)",
        "from trainer.journal.protocol import JOURNAL_FILE as name\nplace = path / name",
    ],
)
def test_such_a_line_is_found(line: str) -> None:
    assert list(offences(line))


@pytest.mark.parametrize(
    "line", ["UntrustedFolder(run.folder).open(name)", "str(files.log)", "inside.open(name)", "len(folder.name)"]
)
def test_other_lines_are_not(line: str) -> None:
    assert not list(offences(line))
