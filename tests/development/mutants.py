"""Change one operator, number or condition in random lines, and count how many of these mutants the tests notice.

    python -m tests.suite test-python -m "not nightly" --cov --cov-context=test     # writes .coverage
    python -m tests.development.mutants --lines 200 --seed 0

Each mutant is tried in a copy of the committed tree, with the tests that ran its line, the closest ones first, until
one fails. Only so many are tried (--tests), so the number of mutants noticed is a lower limit.

Needs `pip install cosmic-ray==8.7.0 pytest-cov==7.1.0`.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec
from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[2]
MUTATED = ("trainer/algorithms", "trainer/learner", "webapp/ingest", "webapp/runs/queue")
LINKED = (".venv", "node_modules", "static/vendor")
"""Ignored folders that tests need."""
EQUIVALENT = re.compile(r"_BitOr_|_(Eq|NotEq|Lt|LtE|Gt|GtE)_Is(Not)?$")
"""Operators whose mutants mostly mean the same: unions in annotations, and identity of small numbers."""
FIRST = 40
"""Tests that are tried before the others that ran the line."""
STUCK_SECONDS = 120
"""A test that takes longer has noticed the mutant."""
NO_FAILURE = 0
"""Exit code of pytest."""


@dataclass(frozen=True)
class Mutant:
    """One change of a line."""

    spec: MutationSpec
    path: str
    line: int


@dataclass(frozen=True)
class Verdict:
    """What the tests said about a mutant."""

    outcome: str
    """killed, survived, or unreached if no test ran the line."""
    by: str = ""
    """The test that failed; empty if it did not end."""


def drawn(folders: Sequence[str], lines: int, seed: int) -> list[Mutant]:
    """Draws lines that can be mutated, and one mutant of each."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    of_line: dict[tuple[str, int], list[Mutant]] = {}
    with use_db(":memory:", WorkDB.Mode.create) as database:
        init(paths, database, {})
        for item in database.work_items:
            (spec,) = item.mutations
            if not EQUIVALENT.search(spec.operator_name):
                path, line = str(Path(spec.module_path).relative_to(ROOT)), spec.start_pos[0]
                of_line.setdefault((path, line), []).append(Mutant(spec, path, line))
    rng = random.Random(seed)
    chosen = rng.sample(sorted(of_line), min(lines, len(of_line)))
    return [rng.choice(of_line[where]) for where in chosen]


def closest_first(tests: set[str], path: str) -> list[str]:
    """Sorts tests by how many folders their file shares with the mutated one; its own tests come first."""
    own = Path("tests", path).with_name(f"test_{Path(path).name}")

    def distance(test: str) -> tuple[bool, int, str]:
        file = Path(test.partition("::")[0])
        return file != own, -len(Path(os.path.commonpath([file, own])).parts), test

    return sorted(tests, key=distance)


def tests_of(mutant: Mutant, data: CoverageData) -> list[str]:
    """The tests that ran a mutant's line; if it only runs at import, all tests that ran any line of its module."""
    measured = next((file for file in data.measured_files() if file.endswith(f"/{mutant.path}")), "")
    by_line = data.contexts_by_lineno(measured) if measured else {}
    contexts = set(by_line.get(mutant.line, []))
    if contexts == {""}:
        contexts = {context for of_line in by_line.values() for context in of_line}
    return closest_first({context.rpartition("|")[0] for context in contexts if "|" in context}, mutant.path)


@contextmanager
def copy_of_the_tree() -> Iterator[Path]:
    """The committed tree in a temporary folder, with links to what git ignores."""
    with tempfile.TemporaryDirectory(prefix="echoscope-mutants-") as name:
        folder = Path(name, "main")
        packed = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        for linked in LINKED:
            if (ROOT / linked).exists():
                (folder / linked).symlink_to(ROOT / linked)
        yield folder


def run(tests: Sequence[str], folder: Path) -> tuple[int, str]:
    """Runs tests until one fails or is stuck. Returns pytest's exit code and what it printed."""
    limits = [f"-ofaulthandler_timeout={STUCK_SECONDS}", "-ofaulthandler_exit_on_timeout=true"]
    argv = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", "--no-header", *limits, *tests]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def judge(mutant: Mutant, tests: list[str], folder: Path) -> Verdict:
    """Runs the tests with the mutant in place."""
    if not tests:
        return Verdict("unreached")
    target = folder / mutant.path
    original, times = target.read_text(encoding="utf-8"), target.stat()
    changed = mutate_code(original, get_operator(mutant.spec.operator_name)(), mutant.spec.occurrence)
    assert changed is not None, mutant
    target.write_text(changed, encoding="utf-8")
    # Bytecode is taken for current if the seconds and the size of its source are the same.
    os.utime(target, (times.st_atime, times.st_mtime + 2 + mutant.spec.occurrence))
    try:
        for batch in filter(None, (tests[:FIRST], tests[FIRST:])):
            code, printed = run(batch, folder)
            if code != NO_FAILURE:
                failed = re.search(r"^(?:FAILED|ERROR) (\S+)", printed, re.MULTILINE)
                return Verdict("killed", failed[1] if failed else "")
        return Verdict("survived")
    finally:
        target.write_text(original, encoding="utf-8")
        os.utime(target, (times.st_atime, times.st_mtime))


def main() -> int:
    """Print a line for each mutant, and how many were killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=list(MUTATED))
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first ones, which an earlier run tried")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tests", type=int, default=200, help="largest number of tests per mutant, closest first")
    parser.add_argument("--coverage", type=Path, default=ROOT / ".coverage", help="of a run with --cov-context=test")
    arguments = parser.parse_args()
    data = CoverageData(str(arguments.coverage))
    data.read()
    mutants = drawn(arguments.folders, arguments.lines, arguments.seed)[arguments.skip :]
    planned = [(mutant, tests_of(mutant, data)[: arguments.tests]) for mutant in mutants]
    outcomes: Counter[str] = Counter()
    killers: set[str] = set()
    with ExitStack() as stack:
        folders: SimpleQueue[Path] = SimpleQueue()
        for _ in range(arguments.jobs):
            folders.put(stack.enter_context(copy_of_the_tree()))

        def judged(mutant: Mutant, tests: list[str]) -> Verdict:
            folder = folders.get()
            try:
                return judge(mutant, tests, folder)
            finally:
                folders.put(folder)

        pool = stack.enter_context(ThreadPoolExecutor(arguments.jobs))
        for (mutant, tests), verdict in zip(planned, pool.map(lambda plan: judged(*plan), planned), strict=True):
            outcomes[verdict.outcome] += 1
            killers.update([verdict.by] if verdict.by else [])
            print(f"{verdict.outcome:9} {mutant.path}:{mutant.line} {mutant.spec.operator_name}", end=" ")
            print(f"({len(tests)} tests) {verdict.by}", flush=True)
        code, printed = run(sorted(killers), folders.get()) if killers else (NO_FAILURE, "")
    noticed = outcomes["killed"]
    print(f"{noticed} of {len(mutants)} mutants noticed ({noticed / len(mutants):.1%}): {dict(outcomes)}")
    if code != NO_FAILURE:
        print(f"Some tests fail without a mutant, too, so the figures say nothing:\n{printed}", file=sys.stderr)
    return int(code != NO_FAILURE)


if __name__ == "__main__":
    raise SystemExit(main())
