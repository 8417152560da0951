"""Shared infrastructure of the site: ids, formatting, broadcasting, scheduling."""
