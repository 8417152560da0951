"""Puzzles and games on a board: Sudoku, 2048, Rubik's cube."""
