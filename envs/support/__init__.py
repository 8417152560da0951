"""Utilities shared by several environments."""
