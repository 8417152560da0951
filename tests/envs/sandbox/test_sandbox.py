"""Environments in processes of their own: the same play, an end to everything that hangs, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import envs
from envs.base import TextEnv
from envs.sandbox.client import EnvironmentFailure, Sandbox
from tests.envs.plugins import offering
from tests.patience import SECONDS

ROOT = Path(__file__).parents[3]
STEP = 1.5
"""Seconds a step may take here: a hundred times what the busiest machine needs for one that does not hang."""
Opener = Callable[..., Sandbox]


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Opener]:
    """Guards of the world of troubles, closed when the test is over."""
    opened: list[Sandbox] = []

    def make(start_timeout: float = SECONDS, **settings: Any) -> Sandbox:
        opened.append(Sandbox("Trouble", settings, step_timeout=STEP, start_timeout=start_timeout))
        return opened[-1]

    with offering(tmp_path, Trouble="tests.envs.broken_env:Trouble"):
        yield make
        for one in opened:
            one.close()


def gone(process: int) -> bool:
    """Whether there is no such process any more, or only its entry in the table."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["Sokoban", "FrozenLake", "Bandit"])
def test_a_guarded_environment_plays_exactly_like_one_in_this_process(name: str) -> None:
    guard, here = Sandbox(name), envs.make(name)
    there = guard.make()
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
            told, expected = there.step(advice.actions[0]), here.step(advice.actions[0])
            assert told == expected
            over = expected[2] or expected[3] or not advice.distance
    guard.close()


def test_settings_reach_it() -> None:
    guard = Sandbox("Sokoban", {"size": 8})
    assert len(guard.make().reset(seed=0)[0].split("\n")) == 8
    guard.close()


@pytest.mark.parametrize("how", ["loop", "sleep", "search"])
@pytest.mark.parametrize("when", ["reset", "step"])
def test_one_that_hangs_is_ended_in_time_and_the_others_play_on(guard: Opener, when: str, how: str) -> None:
    opened = guard(when=when, how=how, every=2)
    worlds = [opened.make() for _ in range(3)]
    for number, world in enumerate(worlds):
        world.begin_reset(seed=7, options={"dynamics_seed": number + 1})
    failed = []
    for world in worlds:
        try:
            world.end_reset()
            world.step("Go")
            world.step("Go")
        except EnvironmentFailure as error:
            failed.append((world, str(error)))
    call = "reset()" if when == "reset" else "step('Go')"
    assert failed == [(worlds[1], f"no answer to {call} within 1.5 s (environment.step_timeout)")]
    with pytest.raises(EnvironmentFailure, match="closed, or failed before"):
        worlds[1].step("Go")
    assert worlds[0].step("Go")[0] == "start 7, steps 3, ?"


def two_steps(world: TextEnv) -> None:
    world.reset(seed=1)
    world.step("Go")
    world.step("Go")


@pytest.mark.parametrize(
    ("when", "how", "complaint"),
    [
        ("render", "loop", "no answer to step('Go') within 1.5 s (environment.step_timeout)"),
        ("board", "sleep", "no answer to step('Go') within 1.5 s (environment.step_timeout)"),
        ("hint", "search", "no answer to step('Go') within 1.5 s (environment.step_timeout)"),
        ("step", "leave", "during step('Go') its process ended with exit status 3"),
        ("reset", "leave", "during reset() its process ended with exit status 3"),
        ("hint", "die", "during step('Go') its process died of SIGSEGV"),
        ("step", "fail", "RuntimeError: the pipe is broken"),
        ("reset", "fail", "RuntimeError: the pipe is broken"),
        ("board", "quit", "SystemExit: enough"),
        ("info", "fail", "StepInfo: valid: Field required"),
    ],
)
def test_every_other_way_of_breaking_down_is_told_in_a_line(guard: Opener, when: str, how: str, complaint: str) -> None:
    world = guard(when=when, how=how).make()
    with pytest.raises(EnvironmentFailure) as caught:
        two_steps(world)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ("sleep", "Trouble could not be made within 1.5 s (environment.start_timeout)"),
        ("leave", "Trouble could not be made: its process ended with exit status 3"),
        ("fail", "Trouble could not be made: RuntimeError: the pipe is broken"),
    ],
)
def test_one_that_cannot_even_be_made_says_so_and_is_not_tried_again(
    guard: Opener, tmp_path: Path, how: str, complaint: str
) -> None:
    note = tmp_path / "tries"
    note.touch()
    opened = guard(when="make", how=how, note=str(note), start_timeout=1.5 if how == "sleep" else SECONDS)
    for _ in range(2):
        with pytest.raises(EnvironmentFailure) as caught:
            opened.make()
        assert str(caught.value) == complaint
    assert len(note.read_text().split()) <= 1, "the second time it is known"


def test_what_a_hung_one_has_started_ends_with_it(guard: Opener, tmp_path: Path) -> None:
    note = tmp_path / "processes"
    world = guard(when="step", how="loop", note=str(note)).make()
    world.reset(seed=1)
    world.step("Go")
    with pytest.raises(EnvironmentFailure, match="no answer"):
        world.step("Go")
    processes = [int(word) for word in note.read_text().split()]
    assert len(processes) == 2
    wait_until(lambda: all(map(gone, processes)))


def test_a_closed_guard_leaves_no_process_behind(guard: Opener, tmp_path: Path) -> None:
    note = tmp_path / "processes"
    opened = guard(note=str(note))
    worlds = [opened.make() for _ in range(4)]
    for world in worlds:
        world.reset(seed=1)
    worlds[0].close()
    opened.close()
    processes = [int(line.split()[0]) for line in note.read_text().splitlines()]
    for line in note.read_text().splitlines():
        os.kill(int(line.split()[1]), signal.SIGTERM)  # what an idle one has started is its own business
    assert len(processes) == 4
    wait_until(lambda: all(map(gone, processes)))


def test_a_host_that_was_killed_is_started_again(guard: Opener) -> None:
    opened = guard()
    first = opened.make()
    first.reset(seed=1)
    assert opened._host is not None
    opened._host._process.kill()
    opened._host._process.wait()
    assert first.step("Go")[1] == 1.0
    second = opened.make()
    second.reset(seed=2)
    assert second.step("Go")[0] == "start 2, steps 1, ?"


def test_a_hung_one_ends_even_when_everybody_else_was_killed(tmp_path: Path) -> None:
    note = tmp_path / "processes"
    code = f"""
        import sys, os
        sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]
        from envs.sandbox.client import Guard
        world = Guard("Trouble", dict(when="step", how="loop", note={str(note)!r}), step_timeout=1).make()
        world.reset(seed=1)
        world.step("Go")
        world._ask("step", "Go")
        os.killpg(0, 9)
    """
    with offering(tmp_path, Trouble="tests.envs.broken_env:Trouble"):
        argv = [sys.executable, "-c", "if True:" + code]
        done = subprocess.run(argv, cwd=ROOT, start_new_session=True, timeout=SECONDS)
    assert done.returncode == -signal.SIGKILL
    hung, started = (int(word) for word in note.read_text().split())
    os.kill(started, signal.SIGTERM)
    wait_until(lambda: gone(hung))


def test_128_at_a_time_share_most_of_their_memory(guard: Opener) -> None:
    opened = guard()
    worlds = [opened.make() for _ in range(128)]
    for number, world in enumerate(worlds):
        world.begin_reset(seed=number)
    assert [world.end_reset()[0] for world in worlds] == [f"start {n}, steps 0, ?" for n in range(128)]
    own = [world.step("Go") and memory_of(process) for world, process in zip(worlds, children(opened), strict=True)]
    assert sum(own) < 128 * 16e6
    for world in worlds:
        world.close()


def children(opened: Sandbox) -> list[int]:
    assert opened._host is not None
    host = opened._host._process.pid
    if not Path("/proc").exists():
        pytest.skip("processes are looked at through /proc")
    return [int(word) for word in Path(f"/proc/{host}/task/{host}/children").read_text().split()]


def memory_of(process: int) -> float:
    """Bytes that belong to the process alone."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return 1024.0 * (sizes["Private_Clean"] + sizes["Private_Dirty"])
