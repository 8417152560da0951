"""Sandboxed environments: equal episodes, time-outs, no leftover processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import envs
from envs.base import TextEnv
from envs.sandbox.client import EnvironmentFailure, Sandbox
from envs.sandbox.host_environment import host_environment
from tests.envs.plugins import offering
from tests.patience import SECONDS, wait_until

ROOT = Path(__file__).parents[3]
STEP = 1.5
"""Seconds a step may take here: a hundred times what the busiest machine needs for one that does not hang."""
Opener = Callable[..., Sandbox]


@pytest.fixture
def open_sandbox(tmp_path: Path) -> Iterator[Opener]:
    """Opens sandboxes of the broken environment, closed after the test."""
    opened: list[Sandbox] = []

    def make(start_timeout: float = SECONDS, **settings: Any) -> Sandbox:
        opened.append(Sandbox("Trouble", settings, step_timeout=STEP, start_timeout=start_timeout))
        return opened[-1]

    with offering(tmp_path, Trouble="tests.envs.broken_env:Trouble"):
        yield make
        for one in opened:
            one.close()


def gone(process: int) -> bool:
    """Whether the process has ended or is a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


@pytest.mark.parametrize("name", ["Sokoban", "FrozenLake", "Bandit"])
def test_a_sandboxed_environment_equals_one_in_this_process(name: str) -> None:
    sandbox, here = Sandbox(name), envs.make(name)
    there = sandbox.make()
    for seed in range(4):
        options = {"dynamics_seed": 100 + seed}
        assert there.reset(seed=seed, options=options) == here.reset(seed=seed, options=options)
        assert there.env_spec == here.env_spec
        over = False
        while not over:
            assert (there.render(), there.board(), there.hint()) == (here.render(), here.board(), here.hint())
            assert there.step("Jump") == here.step("Jump")
            advice = here.hint()
            assert advice is not None
            received, expected = there.step(advice.actions[0]), here.step(advice.actions[0])
            assert received == expected
            over = expected[2] or expected[3] or not advice.distance
    sandbox.close()


def test_settings_reach_it() -> None:
    open_sandbox = Sandbox("Sokoban", {"size": 8})
    assert len(open_sandbox.make().reset(seed=0)[0].split("\n")) == 8
    open_sandbox.close()


@pytest.mark.parametrize(("when", "how"), [("reset", "loop"), ("step", "sleep"), ("step", "search")])
def test_a_hung_environment_is_killed_in_time_and_the_others_continue(
    open_sandbox: Opener, when: str, how: str
) -> None:
    opened = open_sandbox(when=when, how=how, every=2)
    opened_envs = [opened.make() for _ in range(3)]
    for number, env in enumerate(opened_envs):
        env.begin_reset(seed=7, options={"dynamics_seed": number + 1})
    failed = []
    for env in opened_envs:
        try:
            env.end_reset()
            env.step("Go")
            env.step("Go")
        except EnvironmentFailure as error:
            failed.append((env, str(error)))
    call = "reset()" if when == "reset" else "step('Go')"
    assert failed == [(opened_envs[1], f"no answer to {call} within 1.5 s (ECHOSCOPE_TIMEOUT_ENVIRONMENT_STEP)")]
    with pytest.raises(EnvironmentFailure, match="closed, or failed before"):
        opened_envs[1].step("Go")
    assert opened_envs[0].step("Go")[0] == "start 7, steps 3, ?"


def two_steps(env: TextEnv) -> None:
    env.reset(seed=1)
    env.step("Go")
    env.step("Go")


@pytest.mark.parametrize(
    ("when", "how", "complaint"),
    [
        ("render", "loop", "no answer to step('Go') within 1.5 s (ECHOSCOPE_TIMEOUT_ENVIRONMENT_STEP)"),
        ("board", "sleep", "no answer to step('Go') within 1.5 s (ECHOSCOPE_TIMEOUT_ENVIRONMENT_STEP)"),
        ("hint", "search", "no answer to step('Go') within 1.5 s (ECHOSCOPE_TIMEOUT_ENVIRONMENT_STEP)"),
        ("step", "leave", "during step('Go') its process ended with exit status 3"),
        ("reset", "leave", "during reset() its process ended with exit status 3"),
        ("hint", "die", "during step('Go') its process died of SIGSEGV"),
        ("step", "fail", "RuntimeError: the pipe is broken"),
        ("reset", "fail", "RuntimeError: the pipe is broken"),
        ("board", "quit", "SystemExit: enough"),
        ("info", "fail", "StepInfo: valid: Field required"),
    ],
)
def test_every_other_failure_is_reported_in_one_line(open_sandbox: Opener, when: str, how: str, complaint: str) -> None:
    env = open_sandbox(when=when, how=how).make()
    with pytest.raises(EnvironmentFailure) as caught:
        two_steps(env)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ("sleep", "Trouble could not be made within 1.5 s (ECHOSCOPE_TIMEOUT_ENVIRONMENT_START)"),
        ("leave", "Trouble could not be made: its process ended with exit status 3"),
        ("fail", "Trouble could not be made: RuntimeError: the pipe is broken"),
    ],
)
def test_an_environment_that_cannot_be_constructed_is_not_retried(
    open_sandbox: Opener, tmp_path: Path, how: str, complaint: str
) -> None:
    note = tmp_path / "attempts"
    note.touch()
    opened = open_sandbox(when="make", how=how, note=str(note), start_timeout=1.5 if how == "sleep" else SECONDS)
    for _ in range(2):
        with pytest.raises(EnvironmentFailure) as caught:
            opened.make()
        assert str(caught.value) == complaint
    assert len(note.read_text().split()) <= 1, "the failure is remembered"


def test_subprocesses_of_a_hung_environment_end_with_it(open_sandbox: Opener, tmp_path: Path) -> None:
    note = tmp_path / "processes"
    env = open_sandbox(when="step", how="loop", note=str(note)).make()
    env.reset(seed=1)
    env.step("Go")
    with pytest.raises(EnvironmentFailure, match="no answer"):
        env.step("Go")
    processes = [int(word) for word in note.read_text().split()]
    assert len(processes) == 2
    wait_until(lambda: all(map(gone, processes)))


def test_a_closed_sandbox_leaves_no_process_behind(open_sandbox: Opener, tmp_path: Path) -> None:
    note = tmp_path / "processes"
    opened = open_sandbox(note=str(note))
    opened_envs = [opened.make() for _ in range(4)]
    for env in opened_envs:
        env.reset(seed=1)
    opened_envs[0].close()
    opened.close()
    processes = [int(line.split()[0]) for line in note.read_text().splitlines()]
    for line in note.read_text().splitlines():
        os.kill(int(line.split()[1]), signal.SIGTERM)  # processes started by an idle one do not matter
    assert len(processes) == 4
    wait_until(lambda: all(map(gone, processes)))


def test_a_killed_host_is_restarted(open_sandbox: Opener) -> None:
    opened = open_sandbox()
    first = opened.make()
    first.reset(seed=1)
    assert opened._host is not None
    opened._host._process.kill()
    opened._host._process.wait()
    assert first.step("Go")[1] == 1.0
    second = opened.make()
    second.reset(seed=2)
    assert second.step("Go")[0] == "start 2, steps 1, ?"


def test_a_hung_environment_ends_even_after_host_and_client_were_killed(tmp_path: Path) -> None:
    note = tmp_path / "processes"
    code = f"""
        import sys, os
        sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]
        from envs.sandbox.client import Sandbox
        env = Sandbox("Trouble", dict(when="step", how="loop", note={str(note)!r}), step_timeout=1).make()
        env.reset(seed=1)
        env.step("Go")
        env._send("step", "Go")
        os.killpg(0, 9)
    """
    with offering(tmp_path, Trouble="tests.envs.broken_env:Trouble"):
        argv = [sys.executable, "-c", "if True:" + code]
        done = subprocess.run(argv, cwd=ROOT, start_new_session=True, timeout=SECONDS)
    assert done.returncode == -signal.SIGKILL
    hung, started = (int(word) for word in note.read_text().split())
    os.kill(started, signal.SIGTERM)
    wait_until(lambda: gone(hung))


def test_128_environments_share_most_of_their_memory(open_sandbox: Opener) -> None:
    opened = open_sandbox()
    opened_envs = [opened.make() for _ in range(128)]
    for number, env in enumerate(opened_envs):
        env.begin_reset(seed=number)
    assert [env.end_reset()[0] for env in opened_envs] == [f"start {n}, steps 0, ?" for n in range(128)]
    own = [env.step("Go") and memory_of(process) for env, process in zip(opened_envs, children(opened), strict=True)]
    assert sum(own) < 128 * 16e6
    for env in opened_envs:
        env.close()


def children(opened: Sandbox) -> list[int]:
    assert opened._host is not None
    host = opened._host._process.pid
    if not Path("/proc").exists():
        pytest.skip("processes are looked at through /proc")
    return [int(word) for word in Path(f"/proc/{host}/task/{host}/children").read_text().split()]


def memory_of(process: int) -> float:
    """Private memory of the process in bytes."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return 1024.0 * (sizes["Private_Clean"] + sizes["Private_Dirty"])


def test_a_sandbox_receives_basic_and_declared_variables_only() -> None:
    given = {"PATH": "/bin", "LC_ALL": "C", "HF_TOKEN": "secret", "WANDB_API_KEY": "secret", "GAME_DATA": "/game"}
    assert set(host_environment(given)) == {"PATH", "LC_ALL"}
    assert set(host_environment(given, ["GAME_DATA"])) == {"PATH", "LC_ALL", "GAME_DATA"}


def test_the_process_of_an_environment_has_no_token(open_sandbox: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("TMPDIR", "/tmp")
    opened = open_sandbox()
    opened.make()
    assert opened._host is not None
    variables = Path(f"/proc/{opened._host._process.pid}/environ").read_bytes()
    assert b"TMPDIR=/tmp" in variables
    assert b"HF_TOKEN" not in variables
