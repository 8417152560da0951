"""Setup errors of an unsuitable machine: what happened, what was kept, what to do."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bootstrap import machine, packages, torch_build
from bootstrap.__main__ import outdated_message
from bootstrap.progress import SetupError
from tests import running_product
from tests.patience import SECONDS
from webapp.services import addresses, startup
from webapp.services.addresses import ROOT
from webapp.services.lock import AlreadyRunning, Lock
from webapp.services.startup import StartupError

CPU = {"install": [{"metadata": {"requires_dist": ["filelock", "sympy>=1.13.3"]}}]}
CUDA = {"install": [{"metadata": {"requires_dist": ['nvidia-cublas==13.1; platform_system == "Linux"', "filelock"]}}]}


def test_the_message_for_an_old_python_names_the_needed_version_and_a_working_command() -> None:
    message = outdated_message((3, 9, 2, "final", 0), "demo")
    assert message.startswith("Echoscope needs Python 3.11 or newer; this is 3.9.2")
    assert "make demo PYTHON=python3.12" in message


def old_pythons() -> list[str]:
    """Older Pythons on this machine."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [str(path) for minor in ("2.7", "3.6", "3.8", "3.9") for path in versions.glob(f"{minor}*/bin/python")]
    return found or [path for name in ("python2", "python3.9", "python3.10") if (path := shutil.which(name))]


@pytest.mark.parametrize("python", old_pythons() or [pytest.param("", marks=pytest.mark.skip("no old Python here"))])
def test_the_entry_point_runs_under_old_pythons_and_names_the_problem(python: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path)}  # no newer Python to be found
    done = subprocess.run(
        [python, "-m", "bootstrap", "demo"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "Echoscope needs Python 3.11 or newer; this is" in done.stderr
    assert "SyntaxError" not in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_target_lists_the_known_ones() -> None:
    done = subprocess.run([sys.executable, "-m", "bootstrap", "deploy"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "There is no `make deploy`" in done.stderr
    assert "make demo" in done.stderr


def test_a_missing_venv_module_names_debians_package() -> None:
    message = packages.explain_venv(
        "The virtual environment was not created successfully because ensurepip is not available."
    )
    assert f"apt-get install python3.{sys.version_info.minor}-venv" in message


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        ("ERROR: Could not install: [Errno 28] No space left on device", "disk is full"),
        ("NewConnectionError: Failed to establish a new connection: Name or service not known", "Check the network"),
        ("ERROR: No matching distribution found for torch", "Try another Python: PYTHON=python3.12"),
        ("an unknown error", "an unknown error"),
    ],
)
def test_failures_of_pip_are_explained(output: str, advice: str) -> None:
    text = packages.explain_pip(output)
    assert advice in text
    assert "run the same command again" in text


def test_insufficient_disk_space_reports_the_required_amount(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "free_bytes", lambda folder: machine.GIB // 2)
    with pytest.raises(SetupError, match=r"0\.5 GB free, 4\.0 GB are needed. Nothing was changed"):
        machine.require_space(tmp_path, 4 * machine.GIB, "to install Echoscope")


def test_free_space_of_a_missing_folder_is_that_of_its_disk(tmp_path: Path) -> None:
    nearby = shutil.disk_usage(tmp_path).free
    assert abs(machine.free_bytes(tmp_path / "not" / "yet") - nearby) < machine.GIB


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 20 MB, if mounting is permitted."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_refused_before_any_start(small_disk: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "up"],
        cwd=ROOT,
        env=running_product.clean_environment(small_disk / "var"),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 1
    assert "MB free; 500 MB are needed to start. Nothing was started" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (small_disk / "var" / "postgres").exists()


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that another program listens on."""
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_requested_port_in_use_is_refused_with_an_alternative(taken_port: int) -> None:
    with pytest.raises(StartupError, match=rf"Port {taken_port} .* taken by another program.*ECHOSCOPE_PORT=\d+"):
        startup.choose_port(str(taken_port), "127.0.0.1")


def test_the_default_is_the_next_free_port(taken_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "FIRST_PORT", taken_port)
    chosen = startup.choose_port("", "127.0.0.1")
    assert chosen > taken_port
    assert addresses.is_free(chosen)


@pytest.mark.parametrize("wish", ["eighty", "0", "70000", "-1"])
def test_an_invalid_port_is_refused(wish: str) -> None:
    with pytest.raises(StartupError, match="must be a number from 1 to 65535"):
        startup.choose_port(wish, "127.0.0.1")


def test_a_second_lock_on_a_folder_is_refused_while_the_first_is_held(tmp_path: Path) -> None:
    first = Lock(tmp_path)
    first.take()
    first.note(url="http://localhost:8123")
    with pytest.raises(AlreadyRunning, match=rf"at http://localhost:8123 \(process {os.getpid()}\)"):
        Lock(tmp_path).take()
    del first
    Lock(tmp_path).take()


def test_ports_and_passwords_are_reused_and_only_a_port_in_use_changes(tmp_path: Path) -> None:
    first = addresses.choose(tmp_path)
    assert addresses.choose(tmp_path) == first
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", first.redis_port))
        other.listen()
        second = addresses.choose(tmp_path)
    assert second.redis_port != first.redis_port
    assert (second.postgres_port, second.redis_password) == (first.postgres_port, first.redis_password)
    assert (tmp_path / "services.json").stat().st_mode & 0o077 == 0


class TestTheBuildOfTorch:
    """No accidental download of CUDA, and a message when the right build is unavailable."""

    @pytest.fixture(autouse=True)
    def _no_torch_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("ECHOSCOPE_TORCH", raising=False)
        monkeypatch.delenv("ECHOSCOPE_TORCH_INDEX", raising=False)
        monkeypatch.setattr("platform.system", lambda: "Linux")

    def test_with_a_gpu_the_default_build_is_chosen_without_a_query(self) -> None:
        assert torch_build.arguments(self.never, gpu=True) == ["torch==2.13.0"]

    def test_without_a_gpu_an_index_with_a_cpu_build_is_enough(self) -> None:
        assert torch_build.arguments(lambda words: CPU, gpu=False) == ["torch==2.13.0"]

    def test_without_a_gpu_a_cuda_build_falls_back_to_the_cpu_index(self) -> None:
        chosen = torch_build.arguments(lambda words: CPU if "--index-url" in words else CUDA, gpu=False)
        assert chosen == ["--index-url", torch_build.CPU_INDEX, "torch==2.13.0"]

    def test_without_a_gpu_and_without_a_cpu_build_nothing_is_downloaded(self) -> None:
        with pytest.raises(SetupError, match=r"Nothing was downloaded(.|\n)*ECHOSCOPE_TORCH=cuda make demo"):
            torch_build.arguments(lambda words: None if "--index-url" in words else CUDA, gpu=False)

    def test_without_an_index_network_and_proxy_are_mentioned(self) -> None:
        with pytest.raises(SetupError, match="check network and proxy"):
            torch_build.arguments(lambda words: None, gpu=False)

    def test_cuda_and_a_mirror_can_be_requested(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ECHOSCOPE_TORCH", "cuda")
        assert torch_build.arguments(self.never, gpu=False) == ["torch==2.13.0"]
        monkeypatch.setenv("ECHOSCOPE_TORCH_INDEX", "https://mirror.example/cpu")
        assert torch_build.arguments(self.never, gpu=False)[:2] == ["--index-url", "https://mirror.example/cpu"]

    def test_an_unknown_build_is_rejected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ECHOSCOPE_TORCH", "tpu")
        with pytest.raises(SetupError, match="must be cpu or cuda"):
            torch_build.arguments(self.never, gpu=False)

    @pytest.mark.parametrize(
        ("requirement", "requires"),
        [
            ('nvidia-cudnn-cu13==9.2; platform_system == "Linux"', True),
            ("cuda-bindings<14,>=13; sys_platform == 'linux'", sys.platform == "linux"),
            ('nvidia-cudnn-cu13==9.2; platform_system == "Windows"', False),
            ('nvidia-cudnn-cu13==9.2; extra == "cudnn"', False),
            ('nvidia-nccl==2; platform_machine == "riscv128"', False),
            ("networkx>=2.5.1", False),
        ],
    )
    def test_only_nvidia_packages_for_this_platform_count(self, requirement: str, requires: bool) -> None:
        report = {"install": [{"metadata": {"requires_dist": [requirement]}}]}
        assert torch_build.requires_cuda(report) is requires

    @staticmethod
    def never(words: list[str]) -> torch_build.Report | None:
        raise AssertionError(f"unexpected pip query: {words}")


def test_bytecode_is_cached_in_a_separate_folder_where_writing_it_is_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "module.py").write_text("")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    machine.cache_bytecode(tmp_path / "compiled")
    subprocess.run([sys.executable, "-c", "import module"], cwd=tmp_path / "sources", check=True)
    assert [path.name for path in (tmp_path / "sources").iterdir()] == ["module.py"]
    assert list((tmp_path / "compiled").rglob("module.*.pyc"))


def test_where_bytecode_is_written_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    machine.cache_bytecode(ROOT / "nowhere")
    assert "PYTHONPYCACHEPREFIX" not in os.environ
