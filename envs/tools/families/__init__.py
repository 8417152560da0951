"""Notations in which families of models write tool calls, one module for each kind."""
