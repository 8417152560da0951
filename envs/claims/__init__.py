"""Statements of thoughts about the state: a grammar of sentences, and their comparison with a board.

Every reader prefers silence to a guess: a sentence that asks, supposes, plans, denies or recalls states nothing here.
"""
