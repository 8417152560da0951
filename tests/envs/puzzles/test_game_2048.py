"""2048: merges against a reference, new tiles, rewards, advice and board."""

from __future__ import annotations

import hashlib
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import envs
from envs.puzzles.game_2048 import BoardError, Game2048, merge_unit, parse_board
from envs.puzzles.sliding_tiles import ACTIONS, advice, empty_cells, moves, slide

tiles_of_a_row = st.lists(st.integers(0, 4), min_size=4, max_size=4).map(tuple)
boards = st.lists(tiles_of_a_row, min_size=4, max_size=4).map(tuple)
STUCK = "2 4 2 4\n4 2 4 2\n2 4 2 4\n4 2 4 2"


def posed(text: str, **settings_of: object) -> Game2048:
    env = Game2048(**settings_of)
    env.reset(seed=1, options={"board": text})
    return env


def slide_by_brute_force(tiles, action):
    """Move tile by tile, starting with those nearest to the wall, each as far as it can and merging at most once."""
    size = len(tiles)
    grid = {(y, x): tile for y, row in enumerate(tiles) for x, tile in enumerate(row) if tile}
    down, right = {"Left": (0, -1), "Right": (0, 1), "Up": (-1, 0), "Down": (1, 0)}[action]
    merged = {}
    for start in sorted(grid, key=lambda cell: -(cell[0] * down + cell[1] * right)):
        tile, cell = grid.pop(start), start
        while True:
            beyond = (cell[0] + down, cell[1] + right)
            if not (0 <= beyond[0] < size and 0 <= beyond[1] < size):
                break
            if grid.get(beyond) == tile and beyond not in merged:
                cell, tile = beyond, tile + 1
                merged[cell] = tile
                break
            if beyond in grid:
                break
            cell = beyond
        grid[cell] = tile
    after = tuple(tuple(grid.get((y, x), 0) for x in range(size)) for y in range(size))
    return after, sorted(merged.values())


@given(boards, st.sampled_from(ACTIONS))
def test_merges_are_those_of_moving_tile_by_tile(tiles, action):
    after, merged = slide(tiles, action)
    assert (after, sorted(merged)) == slide_by_brute_force(tiles, action)


@pytest.mark.parametrize(
    ("row", "after"),
    [
        ("2 2 2 2", "4 4 . ."),
        ("2 2 2 .", "4 2 . ."),
        ("4 2 2 .", "4 4 . ."),
        ("2 . . 2", "4 . . ."),
        ("2 . 4 2", "2 4 2 ."),
    ],
)
def test_a_merged_tile_merges_only_once(row, after):
    rest = "\n. . . ." * 3
    assert slide(parse_board(row + rest, 4), "Left")[0] == parse_board(after + rest, 4)


@given(seed=st.integers(0, 2**60), dynamics=st.integers(0, 2**60), choices=st.lists(st.sampled_from(ACTIONS)))
def test_each_effective_move_adds_one_tile_and_others_change_nothing(seed, dynamics, choices):
    env = Game2048()
    env.reset(seed=seed, options={"dynamics_seed": dynamics})
    assert 16 - len(empty_cells(env.tiles)) == 2
    for action in choices:
        slid, merged = slide(env.tiles, action)
        before = env.tiles
        _, reward, terminated, truncated, info = env.step(action)
        assert info["effective"] == (slid != before)
        assert not truncated
        if slid == before:
            assert (env.tiles, reward) == (before, 0.0)
            continue
        new = [
            (was, now)
            for row, own in zip(slid, env.tiles, strict=True)
            for was, now in zip(row, own, strict=True)
            if was != now
        ]
        assert new in ([(0, 1)], [(0, 2)])
        assert reward == pytest.approx(sum(merged) / merge_unit(6) + info["success"])
        assert terminated == (info["success"] or not moves(env.tiles))
        if terminated:
            break


def test_equal_seeds_and_actions_give_the_same_game():
    seen = []
    for seed in range(30):
        env = Game2048()
        text, _ = env.reset(seed=seed, options={"dynamics_seed": seed + 1})
        seen.append(text)
        seen += [env.step(action)[0] for action in ACTIONS * 3]
    assert hashlib.sha256("\n\n".join(seen).encode()).hexdigest()[:16] == "6a5ba8d871b71d1a"


def test_members_of_a_group_get_different_new_tiles():
    texts = set()
    for member in range(16):
        env = Game2048()
        env.reset(seed=4, options={"dynamics_seed": member})
        texts.add(env.step(env.hint().actions[0])[0])
    assert len(texts) > 4


@pytest.mark.parametrize(("fours", "value"), [(0, "2"), (1, "4")])
def test_the_share_of_fours_can_be_set(fours, value):
    env = Game2048(fours=fours)
    assert set(env.reset(seed=2)[0].split()) == {".", value}


@pytest.mark.parametrize("exponent", range(3, 12))
def test_the_merges_that_make_a_target_out_of_twos_pay_one(exponent):
    merges = [k for k in range(2, exponent + 1) for _ in range(2 ** (exponent - k))]
    assert sum(merges) == merge_unit(exponent)


def test_the_target_ends_the_game_with_success():
    env = posed("32 32 . .\n. . . .\n. . . .\n2 2 . .")
    text, reward, terminated, _, info = env.step("left")
    assert text.startswith("64 ")
    assert (terminated, info["success"]) == (True, True)
    assert reward == pytest.approx(1 + (6 + 2) / merge_unit(6))
    assert (env.hint().actions, env.hint().distance) == ([], 0)


def test_a_full_board_without_merges_is_lost():
    env = posed(STUCK.replace("4 2 4 2", "4 2 4 4", 1), fours=0)
    text, _, terminated, _, info = env.step("Left")
    assert text == STUCK.replace("4 2 4 2", "4 2 8 2", 1)
    assert (terminated, info["success"]) == (True, False)
    assert (env.hint().solvable, env.hint().reason) == ("no", "no move changes the board")


def test_good_play_reaches_the_target_within_the_budget_far_more_often_than_random_play():
    won = {"hint": 0, "plan": 0}
    for seed in range(30):
        for way in won:
            env = Game2048()
            env.reset(seed=seed)
            left, over = env.env_spec.max_actions, False
            while left and not over:
                for action in env.hint().actions[:1] if way == "hint" else env.plan(min(5, left)):
                    _, _, over, _, info = env.step(action)
                    left -= 1
                    if over:
                        break
            won[way] += info["success"]
    assert won["hint"] >= 27
    assert won["plan"] >= 22


@given(boards)
def test_advice_names_moves_that_change_the_board(tiles):
    best = advice(tiles, 11)
    assert set(best) <= set(moves(tiles))
    assert bool(best) == bool(moves(tiles))


def test_advice_takes_the_target_at_once():
    assert advice(parse_board("32 32 . .\n16 . . .\n. . . .\n2 . . 2", 4), 6) == ["Left", "Right"]


@given(boards.filter(lambda tiles: any(map(any, tiles))))
def test_text_and_board_show_every_tile(tiles):
    text = "\n".join(" ".join(str(2**tile) if tile else "." for tile in row) for row in tiles)
    env = posed(text)
    assert parse_board(env.render(), 4) == tiles
    assert len({len(line) for line in env.render().split("\n")}) == 1
    board = env.board()
    for row, signs in zip(tiles, board.rows, strict=True):
        for tile, sign in zip(row, signs, strict=True):
            symbol = board.legend[sign]
            assert symbol.glyph == (str(2**tile) if tile else None)
            assert tile == (log2(int(symbol.name)) if tile else 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"target": 100}, "target 100 is no power of two: choose 64 or 128"),
        ({"size": 3, "target": 1024}, "no room for the target 1024: choose at most 512, or a larger board"),
        ({"target": 4}, "target"),
        ({"size": 2}, "size"),
        ({"fours": 2}, "fours"),
    ],
)
def test_impossible_settings_are_refused_with_what_to_choose(wrong, message):
    with pytest.raises(ValidationError, match=message):
        envs.make("Game2048", wrong)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 2", "4 lines of 4 values"),
        (STUCK.replace("2", "3"), "'3' is no tile: use powers of two"),
        (STUCK.replace("2", "x"), "'x' is no tile"),
        ("\n".join([". . . ."] * 4), "has no tile"),
    ],
)
def test_faulty_boards_are_refused_with_the_reason(text, message):
    with pytest.raises(BoardError, match=message):
        posed(text)


def test_task_and_budgets_follow_the_target():
    small, large = envs.spec("Game2048", {"target": 16}), envs.spec("Game2048", {"target": 256})
    assert "16" in small.instruction
    assert "256" in large.success
    assert small.max_actions < envs.spec("Game2048").max_actions < large.max_actions
