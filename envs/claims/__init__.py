"""Reads statements about the state in thoughts, by a grammar of sentences, and compares them with a board.

Every reader prefers silence to a guess: questions, assumptions, plans, denials and memories are not statements here.
"""
