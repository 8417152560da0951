"""Print the weight of the project: `python -m tests.development.weight [COMMIT]`.

Lines of Python by layer, of tests and of migrations, numbers of tests and of settings, and functions that are more
complex than ruff's C901 allows. Given a commit, its figures are printed next to the present ones.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("envs", "trainer", "webapp", "echoscope", "bench", "bootstrap")
COMPLEXITY = 10
_TEST = re.compile(r"^\s*(?:async )?def test_", re.MULTILINE)


def weigh(root: Path) -> dict[str, int]:
    """Return the figures of a source tree, by name."""
    lines: Counter[str] = Counter()
    tests = 0
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if parts[0] not in (*LAYERS, "tests"):
            continue
        text = path.read_text(encoding="utf-8")
        name = "migrations" if "migrations" in parts else parts[0]
        lines[name] += text.count("\n")
        if parts[0] == "tests":
            tests += len(_TEST.findall(text))
    production = sum(lines[layer] for layer in LAYERS)
    javascript = sum(path.read_text(encoding="utf-8").count("\n") for path in (root / "static" / "js").rglob("*.js"))
    return {
        **{f"{layer}, lines": lines[layer] for layer in LAYERS},
        "production Python, lines": production,
        "JavaScript, lines": javascript,
        "migrations, lines": lines["migrations"],
        "tests, lines": lines["tests"],
        "tests, functions": tests,
        "settings": _settings(root),
        f"functions with a complexity above {COMPLEXITY}": _complex(root),
    }


def _settings(root: Path) -> int:
    """Settings of a run in the generated reference, without the entries of lists and the settings of environments."""
    page = root / "docs" / "settings.md"
    if not page.exists():
        return 0
    run, _, _ = page.read_text(encoding="utf-8").partition("\n## Settings of the environments")
    sections = re.split(r"^##", run, flags=re.MULTILINE)
    return sum(len(re.findall(r"^\| `", part, re.MULTILINE)) for part in sections if not part.startswith("# Entries"))


def _complex(root: Path) -> int:
    argv = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=C901", "--output-format=concise"]
    argv += [f"--config=lint.mccabe.max-complexity={COMPLEXITY}", *(str(root / layer) for layer in LAYERS)]
    return subprocess.run(argv, capture_output=True, text=True).stdout.count(": C901 ")


def checked_out(commit: str, folder: Path) -> Path:
    """Write the files of a commit to a folder and return it."""
    archive = folder / "commit.tar"
    subprocess.run(["git", "archive", "--output", str(archive), commit], cwd=ROOT, check=True)
    with tarfile.open(archive) as files:
        files.extractall(folder / "tree", filter="data")
    return folder / "tree"


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        trees = [checked_out(commit, Path(folder)) for commit in arguments[:1]]
        found = [weigh(tree) for tree in [*trees, ROOT]]
    print(f"{'':<42}" + "".join(f"{name:>12}" for name in [*arguments[:1], "now"]))
    for name in found[-1]:
        print(f"{name:<42}" + "".join(f"{figures[name]:>12,}" for figures in found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
