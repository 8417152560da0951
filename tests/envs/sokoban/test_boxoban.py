"""Boxoban: levels from files, drawn by the seed, or generated rooms."""

import copy

import pytest

import envs
from envs.sokoban import level_files
from envs.sokoban.boxoban import VARIABLE
from envs.sokoban.level_files import LevelFileError

ROOMS = ["######\n#@$ .#\n######\n", "######\n# .$@#\n######\n", "########\n#@ $ .*#\n########\n"]


@pytest.fixture(autouse=True)
def no_levels_of_this_machine(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "own.txt"
    path.write_text("\n".join(ROOMS))
    return path


def board(env):
    return "\n".join(env.board().rows) + "\n"


def test_the_seed_selects_a_level_and_every_level_comes_up(path):
    env, other = envs.make("Boxoban", {"path": str(path)}), envs.make("Boxoban", {"path": str(path)})
    drawn = []
    for seed in range(300):
        env.reset(seed=seed)
        other.reset(seed=seed)
        assert board(env) == board(other)
        drawn.append(board(env))
    assert set(drawn) == set(ROOMS)
    assert all(70 < drawn.count(room) < 130 for room in ROOMS)


def test_a_level_of_a_file_is_played_to_success(path):
    env = envs.make("Boxoban", {"path": str(path)})
    for seed in range(10):
        env.reset(seed=seed)
        for action in env.plan():
            _, _, terminated, _, info = env.step(action)
        assert terminated
        assert info["success"]


def test_the_environment_variable_replaces_an_empty_path(path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(path.parent))
    env = envs.make("Boxoban")
    env.reset(seed=1)
    assert board(env) in ROOMS


def test_without_a_file_ten_by_ten_rooms_with_four_boxes_are_generated():
    env = envs.make("Boxoban")
    for seed in range(5):
        env.reset(seed=seed)
        assert len(env.board().rows) == 10
        assert len(env.boxes) == 4
        assert 12 <= env.hint().distance <= 40


def test_a_bad_path_in_settings_fails_at_once_and_one_in_the_variable_at_reset(tmp_path, monkeypatch):
    missing = tmp_path / "missing.txt"
    with pytest.raises(LevelFileError, match=r"missing\.txt"):
        envs.make("Boxoban", {"path": str(missing)})
    monkeypatch.setenv(VARIABLE, str(missing))
    env = envs.make("Boxoban")
    with pytest.raises(LevelFileError, match=r"missing\.txt"):
        env.reset(seed=1)


def test_the_budget_of_actions_is_a_setting(path):
    env = envs.make("Boxoban", {"path": str(path), "max_steps": 2})
    env.reset(seed=1)
    assert [env.step("Up")[3] for _ in range(2)] == [False, True]
    endless = envs.make("Boxoban", {"path": str(path), "max_steps": None})
    endless.reset(seed=1)
    assert not any(endless.step("Up")[3] for _ in range(200))


def test_a_running_environment_keeps_its_levels_when_the_file_changes(path):
    env = envs.make("Boxoban", {"path": str(path)})
    before = [env.reset(seed=seed)[0] for seed in range(20)]
    path.write_text(ROOMS[0])
    assert [env.reset(seed=seed)[0] for seed in range(20)] == before
    later = envs.make("Boxoban", {"path": str(path)})
    later.reset(seed=0)
    assert board(later) == ROOMS[0]


def test_copies_of_an_environment_share_its_levels(path):
    env = envs.make("Boxoban", {"path": str(path)})
    env.reset(seed=4)
    other = copy.deepcopy(env)
    assert other.level is env.level
    assert other.reset(seed=9)[0] == env.reset(seed=9)[0]


def test_levels_larger_than_generated_rooms_are_playable(tmp_path):
    wide = "#" * 50 + "\n#@$" + " " * 45 + ".#\n" + "#" * 50 + "\n"
    path = tmp_path / "wide.xsb"
    level_files.write_levels(path, level_files.parse_levels(wide))
    env = envs.make("Boxoban", {"path": str(path)})
    text, _ = env.reset(seed=0)
    assert text in env.observation_space
    assert env.hint().distance == 46
