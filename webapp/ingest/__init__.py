"""Ingest of journals into tables and frames."""
