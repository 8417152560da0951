"""What a trainer may reach, by the worker's variables, and supervised processes that try for more."""

from __future__ import annotations

import json
import os
import site
import socket
import sys
from pathlib import Path

import pytest
from django.db import connection
from pytest_django import Settings

from tests.webapp.worker.test_supervisor import INTERVALS, take
from webapp.runs.models import Run
from webapp.runs.run_files import RunFiles
from webapp.worker.sandbox import host_files, landlock, trainer_sandbox
from webapp.worker.sandbox.trainer_sandbox import VARIABLE, command_prefix
from webapp.worker.supervisor import supervise

needs_landlock = pytest.mark.skipif(not landlock.is_available(), reason="this system has no Landlock")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home folder that tests may write to, without variables of the machine that name caches."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("HF_HOME", "ECHOSCOPE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def rules(data: Path, environment: dict[str, str], readable: tuple[Path, ...] = ()) -> landlock.Rules:
    (data / "runs" / "own").mkdir(parents=True, exist_ok=True)
    prefix, _ = command_prefix(data, data / "runs" / "own", environment, readable)
    made = json.loads(prefix[-1])
    return landlock.Rules(writable=tuple(made["writable"]), readable=tuple(made["readable"]))


def below(folder: Path, paths: tuple[str, ...]) -> set[str]:
    """The paths that lie in the folder, relative to the folder."""
    return {str(Path(path).relative_to(folder)) for path in paths if Path(path).is_relative_to(folder)}


@needs_landlock
def test_caches_are_writable_what_variables_name_is_readable_and_the_runs_are_closed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in ("data/levels", "elsewhere/data", "site/certificates", "home/tools"):
        (tmp_path / name).mkdir(parents=True)
    environment = {
        "HF_HOME": str(data / "models"),
        "TORCH_HOME": str(tmp_path / "elsewhere" / "torch"),
        "TRITON_CACHE_DIR": str(data / "runs"),
        "HF_HUB_CACHE": str(tmp_path),
        "SSL_CERT_DIR": f"{tmp_path}/site/certificates:/missing",
        "ECHOSCOPE_METAMATH_DATA": str(tmp_path / "elsewhere" / "data"),
        "A": str(data),
        "B": "models",
        "C": f"file://{tmp_path}/home/tools, https:/{tmp_path}/site",
        "PATH": f"{tmp_path}/site:/bin",
    }
    made = rules(data, environment, (data / "levels", data / "missing", tmp_path))
    caches = {"data/models", "elsewhere/torch", "home/.cache/echoscope"}
    assert below(tmp_path, made.writable) == {"data/runs/own", *caches}
    named = {"site/certificates", "elsewhere/data", "home/tools"}
    assert below(tmp_path, made.readable) == {"data/levels", *named, "data/models", "elsewhere/torch"}


@needs_landlock
def test_a_data_folder_among_the_files_of_the_system_stays_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system whose programs are below /srv, where the data folder is, too."""
    for name in ("lib", "site/data/runs/own", "site/bin", "site/data/levels"):
        (tmp_path / "srv" / name).mkdir(parents=True)
    (tmp_path / "srv" / "link").symlink_to(tmp_path / "srv" / "site")
    monkeypatch.setattr(host_files, "system", lambda: [tmp_path / "srv"])
    made = rules(tmp_path / "srv" / "site" / "data", {"HF_HOME": "/missing", "ECHOSCOPE_CACHE": "/missing"})
    assert below(tmp_path / "srv", made.readable) == {"lib", "site/bin"}


@needs_landlock
def test_a_link_in_the_folder_of_a_run_opens_no_other_run(tmp_path: Path) -> None:
    """A variable names the checkpoint that a run begins with, which is in its folder."""
    runs = tmp_path / "data" / "runs"
    (runs / "other" / "checkpoints").mkdir(parents=True)
    (runs / "own").mkdir()
    (runs / "own" / ".initial").symlink_to("..")
    for place in (runs / "own" / ".initial" / "other" / "checkpoints", runs / "other", runs):
        made = rules(tmp_path / "data", {"MODEL": str(place), "HF_HUB_CACHE": str(place)})
        assert below(runs, made.writable) == {"own"}
        assert below(tmp_path / "data", made.readable) == set()


@needs_landlock
def test_the_driver_of_a_ray_cluster_writes_to_its_folder_and_no_other_run_does(tmp_path: Path) -> None:
    ray = {"RAY_TMPDIR": str(tmp_path / "scratch")}
    assert below(tmp_path / "scratch", rules(tmp_path / "data", ray).writable) == set()
    address = {"ECHOSCOPE_RAY_ADDRESS": "10.0.0.5:6379"}
    assert below(tmp_path / "scratch", rules(tmp_path / "data", ray | address).writable) == {"ray"}
    assert "/tmp/ray" in rules(tmp_path / "data", address).writable


@needs_landlock
def test_home_and_temporary_files_are_in_the_folder_of_the_run(tmp_path: Path) -> None:
    own = tmp_path / "data" / "runs" / "own"
    own.mkdir(parents=True)
    _, variables = command_prefix(tmp_path / "data", own, {"XDG_CONFIG_HOME": "/config", "HF_HOME": "/hub"})
    assert Path(variables.pop("HOME")).is_dir()
    assert Path(variables.pop("XDG_CONFIG_HOME")).is_relative_to(own)
    assert Path(variables.pop("TMPDIR")).is_relative_to(own)
    if site.ENABLE_USER_SITE:
        assert variables.pop("PYTHONUSERBASE") == site.getuserbase()
    assert variables == {"HF_HOME": "/hub", "ECHOSCOPE_CACHE": str(tmp_path / "home" / ".cache" / "echoscope")}


@needs_landlock
@pytest.mark.parametrize(("uid", "ports", "opened"), [(1000, [443], True), (0, [443], False), (0, None, True)])
def test_cuda_names_threads_in_proc_where_root_can_change_the_kernel(
    uid: int, ports: list[int] | None, opened: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_files, "has_nvidia_gpu", lambda: True)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    prefix, _ = command_prefix(tmp_path, tmp_path, {}, ports=ports)
    made = json.loads(prefix[-1])
    assert made["own_process"]
    assert ("/proc" in made["writable"]) == opened


def test_the_operator_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    assert command_prefix(tmp_path, tmp_path / "runs", {}) == ([], {})
    monkeypatch.setenv(VARIABLE, "of")
    with pytest.raises(ValueError, match="must be one of auto, required, off, not 'of'"):
        command_prefix(tmp_path, tmp_path / "runs", {})
    monkeypatch.setattr(landlock, "is_available", lambda: False)
    monkeypatch.setenv(VARIABLE, "")
    assert command_prefix(tmp_path, tmp_path / "runs", {}) == ([], {})
    monkeypatch.setenv(VARIABLE, "required")
    with pytest.raises(ValueError, match="no Landlock: that takes Linux"):
        command_prefix(tmp_path, tmp_path / "runs", {})


@needs_landlock
def test_a_sandbox_that_is_required_is_none_for_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "required")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ValueError, match="this worker runs as root: start it under another account"):
        command_prefix(tmp_path, tmp_path / "runs", {})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert command_prefix(tmp_path, tmp_path, {})[0]


def test_what_the_sandbox_leaves_open_here_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "auto")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    said = {0: ["as root", "without a sandbox"], 3: ["as root", "the whole network"], 4: ["as root"]}
    for version, parts in said.items():
        monkeypatch.setattr(landlock, "version", lambda version=version: version)
        found = trainer_sandbox.weaknesses()
        assert [part for part in parts if any(part in sentence for sentence in found)] == parts
        assert len(found) == len(parts)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert trainer_sandbox.weaknesses() == []
    monkeypatch.setenv(VARIABLE, "off")
    monkeypatch.setattr(landlock, "version", lambda: 0)
    assert trainer_sandbox.weaknesses() == []


def test_models_in_a_cache_that_runs_write_to_are_refused(tmp_path: Path, settings: Settings) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "data"
    cache = tmp_path / "cache"  # does not exist yet
    with pytest.raises(ValueError, match="where runs may write: choose a folder outside of ECHOSCOPE_CACHE"):
        trainer_sandbox.require_protected({"ECHOSCOPE_CACHE": str(cache)}, cache / "models")
    trainer_sandbox.require_protected({"ECHOSCOPE_CACHE": str(cache)}, tmp_path / "models")


READER = """
import json, pathlib, sys
found = {}
for word in sys.argv[2:]:
    try:
        found[word] = pathlib.Path(word).read_text()
    except OSError as error:
        found[word] = type(error).__name__
pathlib.Path(sys.argv[1]).write_text(json.dumps(found))
"""


@needs_landlock
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_a_trainer_reads_neither_the_key_of_the_site_nor_other_runs_nor_a_home(
    mode: str, run: Run, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, mode)
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "data"
    places = ("data/secret_key", "data/runs/other/journal.jsonl", "home/.netrc", "etc/echoscope.env")
    secrets = [tmp_path / name for name in places]
    for path in secrets:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret")

    def reader(files: RunFiles) -> list[str]:
        return [sys.executable, "-c", READER, str(files.folder / "found.json"), str(files.config), *map(str, secrets)]

    supervise(take(run), command=reader, intervals=INTERVALS)
    found = json.loads((run.folder / "found.json").read_text())
    assert {found[str(path)] for path in secrets} == {"secret" if mode == "off" else "PermissionError"}
    assert "environment" in found[str(run.folder / "config.yaml")]
    assert not (run.folder / trainer_sandbox.TEMPORARY).exists()


WRITER = """
import json, os, sys
found = {}
for word in sys.argv[2:]:
    try:
        os.close(os.open(word, os.O_WRONLY | os.O_CREAT, 0o600))  # changes nothing in a file that exists
        found[word] = ""
    except OSError as error:
        found[word] = type(error).__name__
with open(sys.argv[1], "w") as report:
    json.dump(found, report)
"""


@needs_landlock
@pytest.mark.django_db(transaction=True)
def test_the_files_that_a_command_of_the_operator_names_are_readable(
    run: Run, tmp_path: Path, settings: Settings
) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "data"
    server, questions, secret = (tmp_path / "site" / name for name in ("shop.py", "questions.jsonl", "secret"))
    server.parent.mkdir()
    for path in (server, questions, secret):
        path.write_text(path.name)
    settings.ECHOSCOPE_MCP_COMMANDS = [f"python {server}"]
    settings.ECHOSCOPE_DATA_FOLDERS = [str(questions)]
    run.config["environment"] = {
        "name": "ToolMCP",
        "settings": {"command": settings.ECHOSCOPE_MCP_COMMANDS[0], "questions": str(questions)},
    }
    run.save()

    def reader(files: RunFiles) -> list[str]:
        return [sys.executable, "-c", READER, str(files.folder / "found"), *map(str, (server, questions, secret))]

    supervise(take(run), command=reader, intervals=INTERVALS)
    found = json.loads((run.folder / "found").read_text())
    assert list(found.values()) == ["shop.py", "questions.jsonl", "PermissionError"]


def test_a_package_in_development_is_part_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origins = {
        "edited": {"url": (tmp_path / "my env").as_uri(), "dir_info": {"editable": True}},
        "copied": {"url": (tmp_path / "copied").as_uri(), "dir_info": {}},
        "broken": None,
    }
    for name, origin in origins.items():
        about = tmp_path / "site" / f"{name}-1.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (about / "direct_url.json").write_text(json.dumps(origin) if origin else "{")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    found = {path for path in host_files.program() if path.is_relative_to(tmp_path)}
    assert found == {tmp_path / "site", tmp_path / "my env"}


@needs_landlock
@pytest.mark.django_db(transaction=True)
def test_a_trainer_changes_neither_the_program_nor_its_account_nor_the_system(
    run: Run, tmp_path: Path, settings: Settings
) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "data"
    packages, root = Path(json.__file__).parents[1], host_files.ROOT
    made = "echoscope_sandbox_test"
    closed = [
        *(root / "webapp" / "settings.py", root / "trainer" / f"{made}.py", root / f"{made}.py", root / "manage.py"),
        *(Path(sys.prefix) / "pyvenv.cfg", Path(pytest.__file__), Path(pytest.__file__).parent / f"{made}.py"),
        *(Path(pytest.__file__).parents[1] / f"{made}.pth", packages / f"{made}.py"),
        *(tmp_path / "home" / ".bashrc", tmp_path / "home" / ".cache" / made, Path("/etc/ld.so.preload")),
        *(Path("/proc/sys/kernel/core_pattern"), Path("/proc/self/oom_score_adj"), Path("/tmp") / made),
        *(Path("/sys/kernel/uevent_helper"), Path("/dev") / made, Path("/var/tmp") / made, tmp_path / "data" / made),
    ]
    opened = [Path("/dev/null"), Path("/dev/shm") / made, tmp_path / "home/.cache/huggingface" / made]

    def writer(files: RunFiles) -> list[str]:
        own = [files.folder / "own.txt", files.folder / "tmp" / "own.txt"]
        return [sys.executable, "-c", WRITER, str(files.folder / "found"), *map(str, (*closed, *opened, *own))]

    try:
        supervise(take(run), command=writer, intervals=INTERVALS)
        found = json.loads((run.folder / "found").read_text())
        assert {str(path): found.pop(str(path)) for path in closed} == dict.fromkeys(
            map(str, closed), "PermissionError"
        )
        assert set(found.values()) == {""}
    finally:
        for path in (*closed, *opened):
            if made in path.name:
                path.unlink(missing_ok=True)


CALLER = """
import socket, sys
for port in sys.argv[1:]:
    try:
        socket.create_connection(("127.0.0.1", int(port)), timeout=5).close()
        print("connected")
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.mark.skipif(not landlock.limits_ports(), reason="this system's Landlock limits no ports")
@pytest.mark.django_db(transaction=True)
def test_a_trainer_connects_to_the_server_that_its_run_names_and_not_to_the_database(
    run: Run, tmp_path: Path, settings: Settings
) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as server:
        ports = [str(server.getsockname()[1]), str(connection.settings_dict["PORT"])]
        url = f"http://127.0.0.1:{ports[0]}"
        settings.ECHOSCOPE_ENGINE_URLS = [url]
        run.config |= {"engine": {"name": "server", "urls": [url]}}
        run.config["algorithm"] |= {"tis_cap": 2.0}
        run.save()
        supervise(take(run), command=lambda files: [sys.executable, "-c", CALLER, *ports], intervals=INTERVALS)
    assert (run.folder / "log.txt").read_text().split() == ["connected", "PermissionError"]


@pytest.mark.django_db(transaction=True)
def test_a_sandbox_that_is_required_and_missing_is_the_reason_of_the_failure(
    run: Run, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    monkeypatch.setenv(VARIABLE, "required")
    monkeypatch.setattr(landlock, "is_available", lambda: False)
    assert supervise(take(run), command=lambda files: [sys.executable, "-c", ""], intervals=INTERVALS) == "failed"
    run.refresh_from_db()
    assert "ECHOSCOPE_TRAINER_SANDBOX is 'required', but this system has no Landlock" in run.failure
