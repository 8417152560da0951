"""Limits of a run on its worker, and full disks: how the trainer is ended and what the run's page says."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.patience import SECONDS, wait_until
from tests.webapp.worker.test_supervisor import INTERVALS, act, fresh, take
from trainer.journal.protocol import DISK_FULL
from webapp.runs.models import Run
from webapp.runs.run_files import RunFiles
from webapp.worker import parent_guard, run_limits
from webapp.worker.run_limits import LimitMonitor, RunLimits, configured_limits, folder_bytes, memory_bytes
from webapp.worker.run_limits import process_tree as tree
from webapp.worker.supervisor import Command, supervise

FREQUENT = replace(INTERVALS, limits=0.05)


def script(code: str) -> Command:
    """A trainer that runs this code; `folder` is the run's."""

    def command(files: RunFiles) -> list[str]:
        return [sys.executable, "-c", f"folder = {str(files.folder)!r}\n{code}"]

    return command


class TestVariables:
    def test_without_variables_a_run_has_most_of_the_machine_and_a_month(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run_limits, "available_memory", lambda: (1, 200 * 10**9))
        expected = RunLimits(memory=180 * 10**9, disk=10**12, processes=10_000, seconds=30 * 24 * 3600)
        assert configured_limits({}) == expected
        monkeypatch.setattr(run_limits, "available_memory", lambda: None)
        assert configured_limits({}) == replace(expected, memory=0)

    def test_each_limit_has_a_variable_and_zero_switches_it_off(self) -> None:
        names = ("MEMORY_GB", "DISK_GB", "FILE_GB", "PROCESSES", "HOURS")
        assert configured_limits({f"ECHOSCOPE_RUN_{name}": "0" for name in names}) == RunLimits()
        assert configured_limits({f"ECHOSCOPE_RUN_{name}": "2.5" for name in names}) == RunLimits(
            memory=2_500_000_000, disk=2_500_000_000, file=2_500_000_000, processes=2, seconds=9000
        )

    @pytest.mark.parametrize("text", ["many", "-1", "nan", "inf"])
    def test_another_value_is_refused_by_name(self, text: str) -> None:
        with pytest.raises(ValueError, match="ECHOSCOPE_RUN_DISK_GB must be a number, 0 for no limit"):
            configured_limits({"ECHOSCOPE_RUN_DISK_GB": text})


class TestMeasurements:
    def test_a_folder_counts_what_it_occupies_with_its_sub_folders(self, tmp_path: Path) -> None:
        (tmp_path / "checkpoints" / "000001").mkdir(parents=True)
        before = folder_bytes(tmp_path)
        (tmp_path / "checkpoints" / "000001" / "weights").write_bytes(os.urandom(300_000))
        (tmp_path / "link").symlink_to("/")
        assert 300_000 <= folder_bytes(tmp_path) - before <= 320_000
        assert folder_bytes(tmp_path / "missing") == 0

    def test_a_folder_that_is_too_deep_to_be_measured_ends_the_run(self, tmp_path: Path) -> None:
        """A run could keep any number of bytes there."""
        monitor = LimitMonitor(RunLimits(disk=10**9), tmp_path, os.getpid())
        assert monitor.exceeded() is None
        (tmp_path / Path(*"d" * 100)).mkdir(parents=True)
        exceeded = monitor.exceeded()
        assert exceeded is not None
        assert "is closed or too deep, so it has no known size" in exceeded.message

    @pytest.mark.skipif(sys.platform != "linux", reason="/proc")
    def test_the_processes_of_a_run_are_counted_in_other_sessions_too(self) -> None:
        code = (
            "import subprocess, sys; sleep = [sys.executable, '-c', 'input()']; "
            "one = subprocess.Popen(sleep, start_new_session=True); print(one.pid, flush=True); input()"
        )
        argv = [sys.executable, "-c", code]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            child = int(process.stdout.readline())
            assert tree(process.pid) == sorted([process.pid, child])
            process.communicate("\n\n", timeout=SECONDS)

    @pytest.mark.skipif(sys.platform != "linux", reason="/proc")
    def test_processes_whose_parents_have_ended_are_counted_too(self, tmp_path: Path) -> None:
        child = "import subprocess, sys; print(subprocess.Popen(['cat'], stdout=subprocess.DEVNULL).pid, flush=True)"
        code = (
            "import subprocess, sys; "
            f"subprocess.run([sys.executable, '-c', {child!r}], start_new_session=True); input()"
        )
        argv, env = [sys.executable, "-c", code], os.environ | {parent_guard.TAG: "of-this-test"}
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
            assert process.stdout is not None
            orphan = int(process.stdout.readline())
            wait_until(lambda: parent_guard.tagged_processes("of-this-test") == sorted([process.pid, orphan]))
            wait_until(lambda: tree(process.pid) == [process.pid])  # without the parent, which may be a zombie first
            exceeded = LimitMonitor(RunLimits(processes=1), tmp_path, process.pid, "of-this-test").exceeded()
            assert exceeded is not None
            assert "had 2 processes" in exceeded.message
            process.communicate("\n", timeout=SECONDS)

    @pytest.mark.skipif(sys.platform != "linux", reason="/proc")
    def test_processes_that_the_system_hides_count_as_absent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As with /proc mounted with hidepid, for processes of other accounts."""
        read = Path.read_text

        def hidden(path: Path, *arguments: Any, **settings: Any) -> str:
            if path.parts[:3] == ("/", "proc", "1"):
                raise PermissionError(errno.EPERM, "Operation not permitted", str(path))
            return read(path, *arguments, **settings)

        monkeypatch.setattr(Path, "read_text", hidden)
        assert os.getpid() in tree(os.getpid())
        assert memory_bytes([1, os.getpid()], 10**15) > 0
        assert memory_bytes([1], -1) == 0
        assert parent_guard.start_time(1) == ""

    @pytest.mark.skipif(sys.platform != "linux", reason="/proc")
    def test_shared_memory_counts_once(self) -> None:
        content = bytearray(os.urandom(1)) * 40_000_000
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:  # shares all pages with its parent
            os.close(write_end)
            os.read(read_end, 1)
            os._exit(0)
        try:
            pair, own = memory_bytes([os.getpid(), pid], 0), memory_bytes([os.getpid()], 10**15)
            assert len(content) < pair < own + 20_000_000
        finally:
            os.close(write_end)
            os.waitpid(pid, 0)
            os.close(read_end)


@pytest.mark.django_db(transaction=True)
class TestEndedRuns:
    @pytest.mark.parametrize(
        ("variable", "value", "words"),
        [
            ("MEMORY_GB", "0.001", "GB of memory; the operator of this site allows 0.001 GB per run"),
            ("DISK_GB", "0.000001", "GB of disk space; the operator of this site allows 1e-06 GB per run"),
            ("HOURS", "0.00001", "trained for 1e-05 hours; the operator of this site allows 1e-05 hours per run"),
        ],
    )
    def test_the_page_names_the_limit_and_its_variable(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
    ) -> None:
        monkeypatch.setenv(f"ECHOSCOPE_RUN_{variable}", value)
        assert supervise(take(run), command=act("long"), intervals=FREQUENT) == "failed"
        failure = fresh(run).failure
        assert words in failure
        assert f"(ECHOSCOPE_RUN_{variable}), so it was ended." in failure
        assert "resume" in failure

    def test_too_many_processes_are_ended(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ECHOSCOPE_RUN_PROCESSES", "3")
        fork = script("import os, time\nos.fork()\nos.fork()\ntime.sleep(600)")
        assert supervise(take(run), command=fork, intervals=FREQUENT) == "failed"
        assert "The run had 4 processes; the operator of this site allows 3 per run" in fresh(run).failure

    def test_a_file_beyond_its_limit_cannot_be_written(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ECHOSCOPE_RUN_FILE_GB", "0.001")
        write = script("open(folder + '/big', 'wb').write(bytes(2_000_000))")
        assert supervise(take(run), command=write, intervals=INTERVALS) == "failed"
        assert "wrote a file larger than the operator of this site allows (ECHOSCOPE_RUN_FILE_GB)" in fresh(run).failure
        assert (run.folder / "big").stat().st_size <= 1_000_000

    def test_an_invalid_limit_is_named(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ECHOSCOPE_RUN_HOURS", "soon")
        assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "failed"
        assert "ECHOSCOPE_RUN_HOURS must be a number" in fresh(run).failure

    def test_a_run_below_its_limits_is_left_alone(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in {"MEMORY_GB": "50", "DISK_GB": "1", "FILE_GB": "1", "HOURS": "1"}.items():
            monkeypatch.setenv(f"ECHOSCOPE_RUN_{name}", value)
        assert supervise(take(run), command=act("train"), intervals=FREQUENT) == "finished"

    def test_memory_that_runs_out_ends_a_trainer_before_other_programs(self, run: Run) -> None:
        show = script("open(folder + '/score', 'w').write(open('/proc/self/oom_score_adj').read())")
        supervise(take(run), command=show, intervals=INTERVALS)
        assert (run.folder / "score").read_text().strip() == parent_guard.OOM_SCORE

    def test_files_of_a_run_are_private_and_it_leaves_no_core(self, run: Run) -> None:
        show = script(
            "import resource\nopen(folder + '/cores', 'w').write(str(resource.getrlimit(resource.RLIMIT_CORE)))"
        )
        supervise(take(run), command=show, intervals=INTERVALS)
        assert (run.folder / "cores").read_text() == "(0, 0)"
        assert (run.folder / "cores").stat().st_mode & 0o077 == 0


@pytest.fixture
def small_disk(run: Run) -> Iterator[Path]:
    """The run's folder on a real disk of 1 MB, if mounting is permitted."""
    run.folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(run.folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    yield run.folder
    subprocess.run(["umount", str(run.folder)], check=True)


@pytest.mark.django_db(transaction=True)
class TestFullDisks:
    def test_the_page_names_the_full_disk_although_the_log_is_empty(self, run: Run, small_disk: Path) -> None:
        fill = script("import os\nopen(folder + '/big', 'wb', 0).write(bytes(2_000_000))\nos._exit(1)")
        assert supervise(take(run), command=fill, intervals=INTERVALS) == "failed"
        assert fresh(run).failure.startswith(f"No space left on the disk of {run.folder} (0 MB free): free some")

    def test_a_run_that_cannot_be_prepared_names_it_too_and_resumes_later(self, run: Run, small_disk: Path) -> None:
        (small_disk / "big").write_bytes(bytes((os.statvfs(small_disk).f_bavail) * 4096))
        assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "failed"
        assert "No space left on the disk of" in fresh(run).failure
        (small_disk / "big").unlink()
        Run.objects.filter(pk=run.pk).update(state=Run.State.QUEUED)
        assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "finished"

    def test_the_trainers_own_exit_status_is_enough(self, run: Run) -> None:
        code = f"import sys; sys.stderr.write('error: I/O error\\n'); sys.exit({DISK_FULL})"
        assert supervise(take(run), command=script(code), intervals=INTERVALS) == "failed"
        assert "No space left on the disk of" in fresh(run).failure
        assert "press Resume" in fresh(run).failure

    def test_another_failure_is_not_mistaken_for_it(self, run: Run) -> None:
        assert supervise(take(run), command=act("crash"), intervals=INTERVALS) == "failed"
        assert "exit code 1" in fresh(run).failure


def test_the_clock_of_a_limit_starts_with_the_trainer(tmp_path: Path) -> None:
    now = [100.0]
    monitor = LimitMonitor(RunLimits(seconds=60), tmp_path, os.getpid(), clock=lambda: now[0])
    assert monitor.exceeded() is None
    now[0] = 161.0
    exceeded = monitor.exceeded()
    assert exceeded is not None
    assert exceeded.gentle, "it may write a checkpoint"


def test_this_process_may_still_write_cores() -> None:
    """The limits are those of the trainer, not of the worker."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
