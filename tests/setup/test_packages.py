"""What set-up installs on which machine."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from bootstrap import machine, packages
from bootstrap.progress import SetupError
from bootstrap.test_environments import adapter_packages


@pytest.mark.parametrize("gpus", [0, 1, 2, 8])
def test_ray_is_installed_where_a_run_can_use_several_gpus(
    gpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(gpus):
        (tmp_path / "gpus" / f"0000:0{number}:00.0").mkdir(parents=True)
    count = machine.nvidia_gpus(tmp_path / "gpus")
    assert count == gpus
    installed: list[str] = []
    monkeypatch.setattr(machine, "nvidia_gpus", lambda: count)
    monkeypatch.setattr(packages, "_pip", lambda line, *words: installed.append(words[-1]))
    packages.ensure_ray()
    assert installed == (["ray"] if gpus > 1 else [])


def wheel(folder: Path, name: str, value: str) -> Path:
    """A wheel of one module, without an index."""
    record = f"{name}-1.dist-info"
    files = {
        f"{name}.py": f"VALUE = {value!r}\n",
        f"{record}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
        f"{record}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / f"{name}-1-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(f"{record}/RECORD", "".join(f"{file},,\n" for file in [*files, f"{record}/RECORD"]))
    return path


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a virtual environment like Echoscope's, which has two packages."""
    folder = tmp_path_factory.mktemp("beside")
    venv.create(folder / ".venv", with_pip=True)
    wheels = [str(wheel(folder, name, "beside")) for name in ("torch", "pytest")]
    subprocess.run([folder / ".venv/bin/python", "-m", "pip", "install", "--quiet", "--no-index", *wheels], check=True)
    return folder


@pytest.fixture
def checkout(beside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with requirements of adapters, which that environment has in part."""
    adapter = wheel(tmp_path, "textarena", "adapter")
    (tmp_path / "adapters.txt").write_text(f"torch==1\n{adapter.as_uri()}\n")
    for name, value in {
        "ROOT": tmp_path,
        "PYTHON": beside / ".venv" / "bin" / "python",
        "VENV": tmp_path / ".venv-adapters",
        "VENV_PYTHON": tmp_path / ".venv-adapters" / "bin" / "python",
        "REQUIREMENTS": tmp_path / "adapters.txt",
        "BESIDE": tmp_path / "dev.txt",
        "LOG": tmp_path / "setup.log",
    }.items():
        monkeypatch.setattr(adapter_packages, name, value)
    return tmp_path


@pytest.mark.nightly
def test_packages_of_adapters_are_installed_beside_those_of_echoscope(beside: Path, checkout: Path) -> None:
    adapter_packages.ensure()
    code = "import textarena, torch; print(textarena.VALUE, torch.VALUE, torch.__file__)"
    done = subprocess.run([str(checkout / ".venv-adapters/bin/python"), "-c", code], capture_output=True, text=True)
    adapter, there, place = done.stdout.split()
    assert (adapter, there) == ("adapter", "beside")
    assert Path(place).is_relative_to(beside), "what Echoscope has is not installed a second time"
    lacking = subprocess.run([str(beside / ".venv/bin/python"), "-c", "import textarena"], capture_output=True)
    assert lacking.returncode, "its own environment stays as it was"
    stamp = (checkout / ".venv-adapters/.installed").stat().st_mtime_ns
    adapter_packages.ensure()
    assert (checkout / ".venv-adapters/.installed").stat().st_mtime_ns == stamp, "nothing is installed twice"
    (checkout / "dev.txt").write_text("a==1\n")
    adapter_packages.ensure()
    assert (checkout / ".venv-adapters/.installed").stat().st_mtime_ns > stamp, "other versions beside it: a new one"


def test_a_package_of_an_adapter_that_is_unavailable_ends_set_up_with_a_sentence(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (checkout / "adapters.txt").write_text("no-such-package==1\n")
    with pytest.raises(SetupError, match="A package has no version for Python"):
        adapter_packages.ensure()
    assert not (checkout / ".venv-adapters/.installed").exists()


def test_without_a_compiler_it_is_installed_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(adapter_packages, "PYTHON", Path(sys.executable))
    with pytest.raises(SetupError, match=r"They did NOT run.*gcc libc6-dev python3\.12-dev"):
        adapter_packages.ensure_compiler("3.12.4")
    for name in ("apt-get", "gcc"):
        (tmp_path / name).write_text("#!/bin/sh\n")
    (tmp_path / "apt-get").chmod(0o755)
    installed: list[str] = []

    def run(argv: list[str], *rest: object, **options: object) -> tuple[int, str]:
        installed.extend(argv[2:])
        (tmp_path / "gcc").chmod(0o755)
        return 0, ""

    monkeypatch.setattr(adapter_packages, "run", run)
    monkeypatch.setattr(machine, "is_root", lambda: True)
    adapter_packages.ensure_compiler("3.12.4")
    assert {"gcc", "libc6-dev", "python3.12-dev"} <= set(installed)


def test_an_environment_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter_packages, "PYTHON", Path("/bin/false"))
    with pytest.raises(SetupError, match="/bin/false does not run: remove its folder"):
        adapter_packages.ensure()
