"""What set-up installs on which machine: the real set-up in small checkouts, from small package indexes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from bootstrap import commands, locks, machine, node, packages, uv
from bootstrap.torch_build import VERSION
from tests.local_http import serving
from tests.setup.checkouts import UNREACHABLE, Checkout, Index
from tests.suite import locked_packages

CUDA = 'nvidia-cublas==13 ; platform_system == "Linux" or platform_system == "Darwin"'
ELSEWHERE = 'nvidia-cublas==13 ; platform_system == "Windows"'
WITHOUT_PACKAGES = "import sys; sys.path[:] = [path for path in sys.path if '-packages' not in path]\n"
"""Code of a module sitecustomize that makes a Python without pip."""


@pytest.fixture
def index(tmp_path: Path) -> Index:
    index = Index(tmp_path / "index")
    index.add("agent", "1")
    index.add("nvidia_cublas", "13")
    index.add("torch", VERSION, ELSEWHERE, "agent")
    return index


@pytest.fixture
def checkout(tmp_path: Path, index: Index) -> Checkout:
    return Checkout(tmp_path / "checkout", index)


def test_set_up_installs_the_locked_versions_once_and_again_when_they_change(checkout: Checkout, index: Index) -> None:
    first = checkout.make("install")
    assert first.returncode == 0, first.stdout + first.stderr
    assert f"✓ Installing PyTorch {VERSION} (CPU build, about 200 MB) and the other packages" in first.stdout
    assert (checkout.version("torch"), checkout.version("agent"), checkout.version("pip")) == (VERSION, "1", "26.3")
    again = checkout.make("install", PIP_INDEX_URL=UNREACHABLE)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", ""), "nothing changed: nothing is done or needed"
    index.add("agent", "2")
    checkout.lock(run=f"torch=={VERSION}\nagent==2\n")
    changed = checkout.make("install")
    assert changed.returncode == 0, changed.stdout + changed.stderr
    assert checkout.version("agent") == "2"
    checkout.lock(dev="agent==1\n")
    assert checkout.make("install", "dev").returncode == 0
    checkout.lock(run="")
    assert checkout.make("install", PIP_INDEX_URL=UNREACHABLE).stdout == "", "packages for tests are enough to run"


@pytest.mark.parametrize("broken", ["its Python is gone", "set-up was interrupted"])
def test_a_virtual_environment_that_does_not_work_is_made_again(checkout: Checkout, broken: str) -> None:
    checkout.make("install")
    (module,) = checkout.folder.glob(".venv/lib/python*/site-packages/agent.py")
    module.unlink()
    if broken == "its Python is gone":
        checkout.python.unlink()
        checkout.python.symlink_to("/nowhere/python")
    else:
        (checkout.folder / ".venv" / packages.UNFINISHED).touch()
    done = checkout.make("install")
    assert "instead of one that is unfinished, or whose Python is gone or too old" in done.stdout, done.stderr
    assert checkout.version("agent") == "1"


def test_two_set_ups_at_once_wait_for_each_other(checkout: Checkout) -> None:
    (checkout.folder / "var").mkdir()
    with (checkout.folder / "var/setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = subprocess.Popen(
            checkout.argv("install"), cwd=checkout.folder, env=checkout.environment, stdout=subprocess.PIPE, text=True
        )
        assert second.stdout is not None
        assert "another set-up is running" in second.stdout.readline()
        assert not checkout.python.exists()
    assert second.wait() == 0, second.stdout.read()
    second.stdout.close()
    assert checkout.version("agent") == "1"


class TestTheBuildOfTorch:
    """No accidental download of CUDA, and a message when the right build is unavailable."""

    @pytest.fixture(autouse=True)
    def _cuda_in_the_index(self, index: Index) -> None:
        index.add("torch", VERSION, CUDA)

    def test_without_a_cpu_build_nothing_is_downloaded(self, checkout: Checkout) -> None:
        done = checkout.make("install")
        assert done.returncode == 1
        assert f"PyTorch {VERSION} without CUDA is not available" in done.stderr
        assert "Nothing was downloaded" in done.stderr
        assert "ECHOSCOPE_TORCH=cuda make demo" in done.stderr
        assert not checkout.version("torch")

    def test_cuda_can_be_requested(self, checkout: Checkout) -> None:
        done = checkout.make("install", ECHOSCOPE_TORCH="cuda")
        assert f"Installing PyTorch {VERSION} (CUDA build, several gigabytes) and" in done.stdout, done.stderr
        assert checkout.version("nvidia_cublas") == "13"

    def test_a_mirror_of_the_cpu_builds_is_used_for_torch_alone(self, checkout: Checkout, tmp_path: Path) -> None:
        mirror = Index(tmp_path / "mirror")
        mirror.add("torch", f"{VERSION}+cpu", "agent==1")
        mirror.add("agent", "0")
        done = checkout.make("install", ECHOSCOPE_TORCH_INDEX=mirror.url)
        assert f"✓ Installing PyTorch {VERSION} (from ECHOSCOPE_TORCH_INDEX)" in done.stdout, done.stderr
        assert (checkout.version("torch"), checkout.version("agent")) == (f"{VERSION}+cpu", "1")
        assert not checkout.version("nvidia_cublas")

    def test_a_build_among_the_links_of_pip_comes_first(self, checkout: Checkout, tmp_path: Path) -> None:
        links = Index(tmp_path / "links")
        links.add("torch", f"{VERSION}+cpu")
        configuration = tmp_path / "pip.conf"
        configuration.write_text(f"[global]\nfind-links = {links.folder / 'simple' / 'torch'}\n")
        done = checkout.make("install", PIP_CONFIG_FILE=str(configuration))
        assert done.returncode == 0, done.stdout + done.stderr
        assert checkout.version("torch") == f"{VERSION}+cpu"

    def test_an_unknown_build_is_rejected(self, checkout: Checkout) -> None:
        done = checkout.make("install", ECHOSCOPE_TORCH="tpu")
        assert "ECHOSCOPE_TORCH must be cpu or cuda (or not set), not 'tpu'" in done.stderr


def test_a_file_with_another_hash_than_the_locked_one_is_not_installed(checkout: Checkout, index: Index) -> None:
    """torch has none: the others are compared all the same."""
    (wheel,) = index.folder.glob("**/agent-1-*.whl")
    right = hashlib.sha256(wheel.read_bytes()).hexdigest()
    for digest, refused in (("0" * 64, True), (right, False)):
        checkout.lock(run=f"torch=={VERSION}\nagent==1 \\\n    --hash=sha256:{digest}\n")
        done = checkout.make("install")
        assert bool(done.returncode) is refused, done.stdout + done.stderr
        assert ("the package index has another file than PyPI. It was not installed" in done.stderr) is refused
    assert checkout.version("agent") == "1"
    checkout.lock(run=f"torch=={VERSION}\nagent==1 \\\n    --hash=sha256:{'0' * 64}\n# again\n")
    shutil.rmtree(checkout.folder / ".venv")
    assert checkout.make("install", UV_NO_VERIFY_HASHES="1").returncode == 0


def test_a_missing_version_and_an_unreachable_index_end_set_up_with_a_sentence(checkout: Checkout) -> None:
    unreachable = checkout.make("install", PIP_INDEX_URL=UNREACHABLE)
    assert "The package index is unreachable. Check the network" in unreachable.stderr
    checkout.lock(run="agent==7\n")
    missing = checkout.make("install")
    assert "A package has no version for Python 3." in missing.stderr
    assert "agent==7" in missing.stderr
    for done in (unreachable, missing):
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert "run the same command again" in done.stderr
        assert not list((checkout.folder / ".venv").glob(".installed*"))
    checkout.lock(run="agent==1\n")
    assert "Creating a virtual environment" not in checkout.make("install").stdout, "nothing was changed before"


def test_where_neither_pip_nor_venv_can_fetch_uv_debians_package_is_named(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_PACKAGES)
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "__init__.py").touch()
    done = checkout.make("install", PATH=str(tmp_path), PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert f"apt-get install python3.{sys.version_info.minor}-venv" in done.stderr, done.stdout
    assert not checkout.python.exists()


def test_packages_of_adapters_have_an_environment_with_those_for_tests(checkout: Checkout, index: Index) -> None:
    index.add("textarena", "3", "agent")
    checkout.lock(dev=f"torch=={VERSION}\nagent==1\n", adapters="agent==1\ntextarena==3\n")
    code = "from bootstrap import packages; print(packages.ensure('adapters'))"
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, cwd=checkout.folder, env=checkout.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    checkout.python = Path(done.stdout.splitlines()[-1])
    assert checkout.python.parents[1].name == ".venv-adapters"
    assert [checkout.version(name) for name in ("torch", "agent", "textarena")] == [VERSION, "1", "3"]
    assert not (checkout.folder / ".venv").exists()


@pytest.mark.parametrize("gpus", [0, 1, 2, 8])
def test_ray_is_installed_where_a_run_can_use_several_gpus(
    gpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpus").mkdir()
    for number in range(gpus):
        (tmp_path / "gpus" / f"0000:0{number}:00.0").mkdir()
    installed: list[str] = []
    monkeypatch.setattr(machine, "GPUS", tmp_path / "gpus")
    monkeypatch.setitem(packages.ENVIRONMENTS, "run", (tmp_path / ".venv", ["run"]))
    monkeypatch.setattr(packages, "install", lambda folder, requirements, cuda: installed.extend(requirements))
    packages.ensure("run")
    assert ("ray" in installed) is (gpus > 1)


def test_gpus_that_the_driver_does_not_list_are_those_of_nvidia_smi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "GPUS", tmp_path / "absent")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.nvidia_gpus() == 0
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: RTX (UUID: GPU-1)'\necho 'GPU 1: RTX (UUID: GPU-2)'\n")
    program.chmod(0o755)
    assert machine.nvidia_gpus() == 2


@pytest.mark.parametrize(
    ("present", "to_run", "to_test"),
    [
        ({}, False, False),
        ({"uplot": "2"}, False, False),
        ({"uplot": "1"}, True, False),
        ({"uplot": "1", "typescript": "3"}, True, False),
        ({"uplot": "1", "typescript": "4"}, True, True),
    ],
)
def test_packages_of_npm_are_fetched_unless_the_locked_versions_are_there(
    present: dict[str, str], to_run: bool, to_test: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = {"": {}, "uplot": {"version": "1"}, "typescript": {"version": "4", "dev": True}}
    locked["typescript-for-aix"] = {"version": "4", "dev": True, "optional": True}
    monkeypatch.setattr(node, "ROOT", tmp_path)
    monkeypatch.setattr(node, "MODULES", tmp_path / "node_modules")
    (tmp_path / "package-lock.json").write_text(json.dumps({"packages": locked}))
    assert not node.is_installed(with_tools=False), "there is no node_modules"
    (tmp_path / "node_modules").mkdir()
    packages = {name: {"version": version} for name, version in present.items()}
    (tmp_path / "node_modules" / ".package-lock.json").write_text(json.dumps({"packages": packages}))
    assert (node.is_installed(with_tools=False), node.is_installed(with_tools=True)) == (to_run, to_test)


def test_vllm_is_refused_where_it_has_no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(packages.SetupError, match="did NOT run"):
        packages.ensure("vllm")


def test_pips_configuration_reaches_uv_and_its_variables_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://one.example/simple\nfind-links = /a\n    /b\nno-index = true\ncert = /c.pem\n"
        "extra-index-url = https://two.example/simple https://three.example/simple\n"
        "[install]\ntrusted-host = one.example\n"
    )
    for name in (*uv.LIKE_PIP, *uv.FROM_PIP.values()):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_FIND_LINKS", "/d /e")
    monkeypatch.setenv("SSL_CERT_FILE", "/chosen.pem")
    uv._pip_options.cache_clear()
    try:
        variables = uv.environment()
        assert variables["UV_DEFAULT_INDEX"] == "https://one.example/simple"
        assert variables["UV_INDEX"] == "https://two.example/simple https://three.example/simple"
        assert variables["UV_FIND_LINKS"] == "/d,/e"
        assert variables["UV_INSECURE_HOST"] == "one.example"
        assert variables["SSL_CERT_FILE"] == "/chosen.pem", "uv's own variable is kept"
        assert uv.argv("pip", "install")[-1] == "--no-index"
    finally:
        uv._pip_options.cache_clear()


class Advisories(BaseHTTPRequestHandler):
    """npm's advisory service with one advisory, about uPlot."""

    advisory = {"id": 1, "url": "https://example.org/1", "title": "Draws too much", "severity": "high"}

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        data = json.dumps({"uplot": [self.advisory | {"vulnerable_versions": "<99"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def advisories() -> Iterator[str]:
    with serving(Advisories) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("name", locks.LOCKED)
def test_every_locked_package_but_torch_has_hashes(name: str) -> None:
    text = (packages.LOCKS / f"{name}.txt").read_text()
    assert set(re.findall(r"^([\w.-]+)==.*[^\\]$", text, re.MULTILINE)) <= {"torch"}
    assert text.count("\n    --hash=sha256:") > len(locks.versions(name))


class TestLockFiles:
    @pytest.fixture(autouse=True)
    def _small_locks(self, tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "run.txt").write_text("# note\nagent==1\nchess==1\n")
        monkeypatch.setattr(locks, "LOCKS", tmp_path)
        monkeypatch.setattr(node, "NODE_WHEEL", "agent==1")
        monkeypatch.setattr(uv, "_pip_options", lambda: {"index-url": index.url})
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)

    def test_a_package_without_a_wheel_for_a_platform_is_named(
        self, tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(locks, "LOCKED", {"run": "", "vllm": ""})
        monkeypatch.setattr(locked_packages, "PYTHONS", ("3.11", "3.12"))
        assert locked_packages.check_platforms() == 0
        index.add("fast", "1", tag="cp311-cp311-manylinux_2_28_x86_64")
        (tmp_path / "run.txt").write_text("agent==1\nfast==1\n")
        with pytest.raises(locked_packages.SetupError, match=r"Python 3\.12: (.|\n)*fast"):
            locked_packages.check_platforms()

    def test_locked_versions_are_kept_until_an_upgrade(
        self, tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        index.add("agent", "2")
        (tmp_path / "pyproject.toml").write_text(
            '[project]\nname = "toy"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["agent"]\n'
        )
        (tmp_path / "requirements").mkdir()
        (tmp_path / "requirements" / "uv.toml").touch()
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(locks, "LOCKED", {"run": "--universal --python-version 3.11"})
        monkeypatch.setattr(commands, "ROOT", tmp_path)
        for command, version in (("lock", "1"), ("upgrade", "2"), ("lock", "2")):
            assert commands.run(commands.COMMANDS, [command]) == 0
            assert locks.versions("run") == [f"agent=={version}"]

    def test_source_only_packages_are_those_of_the_lock_file(self) -> None:
        lines = (packages.LOCKS / "adapters.txt").read_text().splitlines()
        assert all(any(line.startswith(name) for line in lines) for name in locked_packages.SOURCE_ONLY)

    def test_the_bill_of_materials_is_of_the_installed_packages(
        self, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        main = "import pathlib, sys\ndef main(): pathlib.Path(sys.argv[sys.argv.index('--output-file') + 1])"
        main += ".write_text(' '.join(sys.argv))\n"
        name, version = locked_packages.CYCLONEDX.replace("-", "_").split("==")
        entry = "[console_scripts]\ncyclonedx-py = cyclonedx_py:main\n"
        index.add(name, version, files={"cyclonedx_py.py": main, "{about}/entry_points.txt": entry})
        monkeypatch.setattr(locked_packages, "BILL", tmp_path / "build" / "sbom.json")
        assert locked_packages.bill_of_materials() == 0
        assert "environment" in locked_packages.BILL.read_text()
        assert locked_packages.BILL.read_text().endswith(str(packages.PYTHON))

    @pytest.mark.parametrize("answers", [True, False])
    def test_findings_and_a_service_that_does_not_answer_have_different_exit_codes(
        self,
        answers: bool,
        index: Index,
        advisories: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        for lock in locks.LOCKED:
            (tmp_path / f"{lock}.txt").write_text("agent==1\n")
        words = tmp_path / "words"
        main = f"import json, sys\ndef main(): open({str(words)!r}, 'w').write(json.dumps(sys.argv))\n"
        entry = "[console_scripts]\npip-audit = pip_audit:main\n"
        name, version = locked_packages.PIP_AUDIT.replace("-", "_").split("==")
        index.add(name, version, files={"pip_audit.py": main, "{about}/entry_points.txt": entry})
        monkeypatch.setenv("npm_config_registry", advisories if answers else UNREACHABLE)
        assert locked_packages.audit("--ignore-vuln", "PYSEC-1") == (1 if answers else locked_packages.UNAVAILABLE)
        output = capsys.readouterr().out
        assert ("Draws too much" in output) is answers
        assert ("no answer from an advisory service" in output) is not answers
        given = json.loads(words.read_text())
        assert {Path(word).name for word in given if word.endswith(".txt")} == {f"{name}.txt" for name in locks.LOCKED}
        assert {"--no-deps", "--disable-pip", "PYSEC-1"} <= set(given)
