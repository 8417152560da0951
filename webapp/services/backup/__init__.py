"""Backup of a site in one file, and its restoration: tables, folders of runs, signing key."""
