"""TextArena's games for one player, with the real package."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from gymnasium.error import ResetNeeded
from pydantic import ValidationError

import envs
from envs.adapters.boards.textarena_boards import draw_board
from envs.base import GridBoard, TextBoard, TextEnv
from envs.pool import EnvironmentPool

pytest.importorskip("textarena", reason="textarena is not installed: pip install textarena")

GAMES = ["FifteenPuzzle-v0", "FrozenLake-v0", "GuessTheNumber-v0", "LightsOut-v0", "Minesweeper-v0", "TowerOfHanoi-v0"]
HANOI = ["[A C]", "[A B]", "[C B]", "[A C]", "[B A]", "[B C]", "[A C]"]


def make(game: str, **arguments: Any) -> TextEnv:
    return envs.make("TextArena", {"id": game, "arguments": arguments})


def test_games_for_one_player_are_variants() -> None:
    variants = envs.variants("TextArena")
    assert set(GAMES) <= set(variants)
    assert variants["TowerOfHanoi-v0"] == "TowerOfHanoi"
    assert not {"Chess-v0", "TowerOfHanoi-v0-raw", "TowerOfHanoi-v0-train"} & set(variants)


@pytest.mark.parametrize("game", GAMES)
def test_an_episode_follows_from_its_seeds(game: str) -> None:
    def play(env: TextEnv) -> list[Any]:
        seen: list[Any] = [env.reset(seed=2**62, options={"dynamics_seed": 3}), env.env_spec]
        for action in ("[up]", "[1 1]", "[3]", "[A C]"):
            seen += [step := env.step(action), env.board()]
            if step[2]:
                break
        return seen

    env = make(game)
    first = play(env)
    assert play(env) == first
    assert play(make(game)) == first


def test_a_game_is_won_by_its_rules() -> None:
    env = make("TowerOfHanoi-v0")
    text, _ = env.reset(seed=1)
    assert "A: [3, 2, 1]" in text
    assert "disk" in env.env_spec.instruction.lower()
    *before, last = [env.step(move) for move in HANOI]
    assert all(step[1:3] == (0.0, False) and step[4]["effective"] for step in before)
    assert last[1:3] == (1.0, True)
    assert last[4]["success"]
    with pytest.raises(ResetNeeded, match="over"):
        env.step("[A C]")


def test_an_invalid_move_is_answered_by_the_game() -> None:
    env = make("TowerOfHanoi-v0")
    env.reset(seed=1)
    text, _, over, _, info = env.step("up")
    assert not over
    assert not info["effective"]
    assert "invalid move" in text.lower()


def test_a_copy_is_independent() -> None:
    env = make("TowerOfHanoi-v0")
    env.reset(seed=1)
    before = env.render()
    ahead = copy.deepcopy(env)
    step = ahead.step("[A C]")
    assert env.render() == before
    assert env.step("[A C]") == step


def test_budgets_are_those_of_the_game() -> None:
    short, long = (envs.spec("TextArena", {"id": game}) for game in ("TowerOfHanoi-v0", "TowerOfHanoi-v0-medium"))
    assert (short.max_turns, short.max_actions, short.max_actions_per_turn) == (14, 14, 1)
    assert long.max_turns == 30


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"id": "TowerOfHanoy-v0"}, "did you mean TowerOfHanoi-v0"),
        ({"id": "Chess-v0"}, "is not a game for one player"),
        ({"id": "TwentyQuestions-v0"}, "cannot be made: .*API key"),
        ({"arguments": {"disks": 4}}, "cannot be made: TypeError"),
    ],
)
def test_unusable_settings_are_refused_with_a_sentence(
    settings: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(ValidationError, match=sentence):
        envs.settings_model("TextArena").model_validate(settings)


def test_it_plays_in_the_sandbox_of_a_run() -> None:
    pool = EnvironmentPool("TextArena", {"id": "TowerOfHanoi-v0"}, step_timeout=60, start_timeout=300)
    try:
        (started,) = pool.start([(4, 5)])
        assert isinstance(started, TextEnv), started
        assert [started.step(move)[4]["success"] for move in HANOI] == [False] * 6 + [True]
    finally:
        pool.close()


def grid(env: TextEnv) -> GridBoard:
    board = env.board()
    assert isinstance(board, GridBoard)
    assert board.legend is None or set("".join(board.rows)) <= set(board.legend)
    return board


def shown(text: str, rows: int, columns: int) -> list[list[str]]:
    """The cells that the game writes: the last signs and numbers of each of its last lines with so many."""
    lines = [line.replace("|", " ").split()[-columns:] for line in text.splitlines()]
    grids = [
        line for line in lines if len(line) == columns and all(len(cell) == 1 or cell.isdecimal() for cell in line)
    ]
    return grids[-rows:]


def test_frozen_lake_is_drawn_with_the_player_where_it_stands() -> None:
    env = make("FrozenLake-v0")
    env.reset(seed=1)
    board = grid(env)
    assert (board.theme, board.rows[0][0], board.rows[3][3]) == ("frozen_lake", "@", "G")
    assert "".join(board.rows).count("O") == 3
    move, row, column = ("[right]", 0, 1) if board.rows[0][1] == " " else ("[down]", 1, 0)
    env.step(move)
    assert grid(env).rows[row][column] == "@"
    assert grid(env).rows[0][0] == " "


def test_sokoban_is_drawn_as_the_game_writes_it() -> None:
    env = make("Sokoban-v0")
    text, _ = env.reset(seed=1)
    signs = {"#": "#", "_": " ", "O": ".", "√": "*", "X": "$", "P": "@", "S": "+"}
    rows = grid(env).rows
    assert rows == ["".join(signs[cell] for cell in row) for row in shown(text, 6, 6)]
    for move in ("[up]", "[left]", "[down]", "[right]"):
        text = env.step(move)[0]
        assert grid(env).rows == ["".join(signs[cell] for cell in row) for row in shown(text, 6, 6)]
    assert sum("".join(rows).count(sign) for sign in "$*") == 3


def test_2048_is_drawn_with_the_values_of_its_tiles() -> None:
    env = make("2048-v0")
    text, _ = env.reset(seed=1)
    for move in ("[Left]", "[Down]", "[Right]", "[Up]"):
        board = grid(env)
        assert board.legend is not None
        names = [[board.legend[sign].name for sign in row] for row in board.rows]
        assert [[value.replace(".", "empty") for value in row] for row in shown(text, 4, 4)] == names
        text = env.step(move)[0]
    game = env._game  # type: ignore[attr-defined]
    game.state.game_state["board"][0][0] = 16384
    assert draw_board(game).legend["e"].glyph == "16k"  # type: ignore[union-attr, index]


def test_minesweeper_shows_what_is_revealed_alone() -> None:
    env = make("Minesweeper-v0-small")
    env.reset(seed=1)
    assert grid(env).rows == ["....."] * 5
    text = env.step("[2 2]")[0]
    rows = grid(env).rows
    assert "".join(rows).replace(" ", "0") == "".join("".join(row) for row in shown(text, 5, 5))
    assert "*" not in "".join(rows)
    game = env._game  # type: ignore[attr-defined]
    row, column = next((row, column) for row in range(5) for column in range(5) if game.grid[row][column] < 0)
    game.revealed[row][column] = True
    assert grid(env).rows[row][column] == "*"


def test_a_sudoku_tells_given_digits_from_those_of_the_player() -> None:
    env = make("Sudoku-v0")
    env.reset(seed=1)
    before = grid(env)
    assert sum(sign not in ".:" for sign in "".join(before.rows)) == 60
    row, column = next((r, c) for r in range(9) for c in range(9) if before.rows[r][c] in ".:")
    digit = env._game.full_grid[row][column]  # type: ignore[attr-defined]
    env.step(f"[{row + 1} {column + 1} {digit}]")
    board = grid(env)
    assert board.legend is not None
    symbol = board.legend[board.rows[row][column]]
    assert (symbol.glyph, symbol.tone) == (str(digit), "good")


def test_lights_out_is_drawn_with_its_lights() -> None:
    env = make("LightsOut-v0")
    text, _ = env.reset(seed=1)
    assert grid(env).rows == ["".join(row) for row in shown(text, 5, 5)]
    before = grid(env).rows[2][2]
    env.step("[2 2]")
    assert grid(env).rows[2][2] != before


def test_a_game_without_a_grid_is_shown_as_text() -> None:
    env = make("GuessTheNumber-v0")
    text, _ = env.reset(seed=1)
    assert env.board() == TextBoard(text=text)


def test_a_game_that_keeps_its_state_in_another_way_is_shown_as_text() -> None:
    env = make("LightsOut-v0")
    text, _ = env.reset(seed=1)
    del env._game.state.game_state["grid"]  # type: ignore[attr-defined]
    assert env.board() == TextBoard(text=text)
