"""Program of an older version, as files of a git revision: it runs next to this version during a rolling upgrade."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from webapp.services.addresses import ROOT

MIGRATIONS = "webapp/*/migrations/[0-9]*.py"
ADDITIONS = {"CreateModel", "AddIndex", "AddIndexConcurrently"}
"""Operations after which programs that do not know of them read and write the tables as before."""
_COMMANDS = """
import json, os
from pathlib import Path
from webapp.services import programs
made = programs.web("127.0.0.1", 0, os.environ, Path()), programs.worker(os.environ, Path())
print(json.dumps([list(program.argv) for program in made]))
"""


class CannotRunBeside(RuntimeError):
    """The revision cannot run next to this version. The message is a sentence."""


@dataclass(frozen=True)
class OlderVersion:
    """Files of a revision in a separate folder, which run in the Python environment of this version.

    Attributes:
        web, worker: commands of its programs, since their options may have changed.
    """

    revision: str
    folder: Path
    web: tuple[str, ...]
    worker: tuple[str, ...]


def newest_tag() -> str:
    """Return the newest release of which this commit is a successor; empty if there is none."""
    return _git("describe", "--tags", "--abbrev=0", "HEAD~1").stdout.decode().strip()


def extract(revision: str, folder: Path) -> OlderVersion:
    """Write the files of a revision to a new folder.

    Raises:
        CannotRunBeside: there is no such revision, its programs cannot use the tables of this version, or they need
            other packages.
    """
    archive = _git("archive", "--format=tar", revision)
    if archive.returncode:
        raise CannotRunBeside(f"{revision} cannot be read from git: {archive.stderr.decode().strip()}")
    folder.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    if obstacles := list(table_differences(folder, ROOT)):
        raise CannotRunBeside(f"Programs of {revision} cannot use the tables of this version: {'; '.join(obstacles)}.")
    done = subprocess.run([sys.executable, "-c", _COMMANDS], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1]
        raise CannotRunBeside(f"{revision} does not run in this Python environment: {last}")
    web, worker = json.loads(done.stdout)
    return OlderVersion(revision, folder, tuple(web), tuple(worker))


def table_differences(older: Path, newer: Path) -> Iterator[str]:
    """Describe each migration that keeps programs in `older` from using a database that `newer` has migrated."""
    before, after = _migrations(older), _migrations(newer)
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield f"this version has no {name}"
        elif name in before and before[name] != after[name]:
            yield f"{name} has changed since"
        elif name not in before:
            yield from (f"{name} has the operation {operation}" for operation in _breaking_operations(after[name]))


def _migrations(tree: Path) -> dict[str, str]:
    return {str(path.relative_to(tree)): path.read_text(encoding="utf-8") for path in tree.glob(MIGRATIONS)}


def _breaking_operations(source: str) -> Iterator[str]:
    """Yield names of operations of a migration other than additions that an older program need not know of."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "operations"):
            continue
        assert isinstance(node.value, ast.List)
        for operation in node.value.elts:
            name = ast.unparse(operation.func).rpartition(".")[2] if isinstance(operation, ast.Call) else "?"
            added = name == "AddField" and _is_filled_by_the_database(operation)
            without_tables = name == "SeparateDatabaseAndState" and "database_operations" not in ast.unparse(operation)
            if name not in ADDITIONS and not added and not without_tables:
                yield name


def _is_filled_by_the_database(operation: ast.AST) -> bool:
    """Return True if a row can be inserted without the added field, as programs do that do not know of it."""
    return any(
        keyword.arg == "db_default" or (keyword.arg == "null" and ast.unparse(keyword.value) == "True")
        for call in ast.walk(operation)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
    )


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)
