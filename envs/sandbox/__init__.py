"""Sandbox processes for environments that are not trusted."""
