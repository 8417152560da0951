"""docs/examples/key-door: a package installed with pip is an environment like the built-in ones."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import envs
from envs.sandbox.client import Sandbox
from tests.envs.plugins import EXAMPLE, importable, install_example
from tests.patience import SECONDS

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "add-an-environment.md"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_example(tmp_path_factory.mktemp("pip"))


@pytest.fixture
def key_door(installed: Path) -> Iterator[None]:
    with importable(installed):
        yield
    sys.modules.pop("key_door", None)


def test_another_process_finds_and_plays_it(installed: Path) -> None:
    code = """
        import warnings
        warnings.simplefilter("error")
        import gymnasium
        from gymnasium.utils.env_checker import check_env
        import envs
        assert envs.names()[-1] == "KeyDoor", envs.names()
        check_env(gymnasium.make("echoscope/KeyDoor-v0").unwrapped)
        env = envs.make("KeyDoor", {"size": 9, "lava": 12})
        for seed in range(50):
            env.reset(seed=seed)
            while env.hint().distance:
                _, reward, over, _, info = env.step(env.hint().actions[0])
            assert (reward, over, info["success"]) == (10.0, True, True)
        print("played")
    """
    path = os.pathsep.join([str(installed), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", "if True:" + code],
        cwd=installed,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.stdout, done.returncode) == ("played\n", 0), done.stderr


@pytest.mark.usefixtures("key_door")
def test_third_party_rules_apply() -> None:
    env = envs.make("KeyDoor")
    for seed in range(30):
        env.reset(seed=seed)
        rows = env.board().rows
        assert sorted("".join(rows).replace("#", "").replace("_", "")) == sorted("PKDG~~")
        door = next((r, c) for r, row in enumerate(rows) for c, sign in enumerate(row) if sign == "D")
        assert all(row[door[1]] in "#D" for row in rows), "the wall goes all the way across"
        distance = env.hint().distance
        while "K" in env.render():
            _, reward, over, _, _ = env.step(env.hint().actions[0])
            assert (reward, over) == (-0.1, False)
            assert env.hint().distance == distance - 1
            distance -= 1
        assert "D" not in env.render(), "who has the key finds the door open"


@pytest.mark.usefixtures("key_door")
def test_lava_ends_the_episode_and_the_hint_explains_why() -> None:
    env = envs.make("KeyDoor", {"size": 8, "lava": 20})
    deaths = 0
    for seed in range(20):
        env.reset(seed=seed)
        rows = env.board().rows
        (row, column) = next((r, line.index("P")) for r, line in enumerate(rows) if "P" in line)
        for name, (down, right) in {"Up": (-1, 0), "Down": (1, 0), "Left": (0, -1), "Right": (0, 1)}.items():
            if rows[row + down][column + right] == "~":
                _, _, over, _, info = env.step(name)
                assert (over, info["success"], env.hint().solvable) == (True, False, "no")
                assert env.hint().reason == "the player is in the lava"
                deaths += 1
                break
    assert deaths


@pytest.mark.usefixtures("key_door")
def test_it_runs_in_a_sandbox() -> None:
    assert not envs.registry.environment_class("KeyDoor").trusted
    guard = Sandbox("KeyDoor", {"size": 7})
    here, there = envs.make("KeyDoor", {"size": 7}), guard.make()
    assert there.reset(seed=5) == here.reset(seed=5)
    action = here.hint().actions[0]
    assert there.step(action) == here.step(action)
    assert (there.board(), there.hint()) == (here.board(), here.hint())
    guard.close()


def test_the_guide_shows_the_file_verbatim_and_it_is_short() -> None:
    code, guide = (EXAMPLE / "key_door.py").read_text(), GUIDE.read_text()
    assert f"```python\n{code}```" in guide, "docs/add-an-environment.md shows another key_door.py"
    assert f"```toml\n{(EXAMPLE / 'pyproject.toml').read_text()}```" in guide
    assert len([line for line in code.splitlines() if line.strip()]) < 100
    ast.parse(code)
