"""Compiled functions also work where machine code cannot be cached."""

from envs.sokoban.jit import compiled


def test_a_function_without_a_source_file_is_compiled_for_this_process():
    made: dict = {}
    exec("def twice(number):\n    return 2 * number\n", made)
    assert compiled(made["twice"])(4) == 8
