"""Sokoban: rules, rooms, solver and level files."""
