"""Importers that turn files of other tools into the journal of a run."""
