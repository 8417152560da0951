"""Importers: files of other tools as the journal of a run."""
