"""The catalogue and the installed models as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainer.config.catalogue import CatalogueModel, catalogue
from trainer.models import store


def size_text(size: int) -> str:
    """Return bytes as text, e.g. “93 MB” or “1.1 GB”."""
    return f"{size / 1e9:.1f} GB" if size >= 999_500_000 else f"{size / 1e6:.0f} MB"


def model_rows() -> Iterator[Mapping[str, object]]:
    """Yield an object for each model: of the catalogue first, then other installed ones, then unfinished downloads."""
    found = {model.name: model for model in store.installed()}
    partial = {download.name: download.bytes for download in store.unfinished()}
    for name, entry in catalogue().items():
        model = found.pop(name, None)
        yield {
            "name": name,
            "installed": None if model is None else store.as_json(model),
            "catalogue": entry.model_dump(mode="json"),
            "unfinished_bytes": partial.pop(name, 0),
        }
    for name, model in found.items():
        yield {"name": name, "installed": store.as_json(model), "catalogue": None, "unfinished_bytes": 0}
    for name, size in partial.items():
        yield {"name": name, "installed": None, "catalogue": None, "unfinished_bytes": size}


def table() -> str:
    """Return the installed models, those that can be fetched, and unfinished downloads as text."""
    found, folder = store.installed(), store.models_folder()
    names = {model.name for model in found}
    lines = [f"Installed in {folder}:" if found else f"No model is installed in {folder}."]
    lines += [
        f"  {model.name:24} {size_text(model.bytes):>8}  {model.licence or '-'}, {_origin(model)}" for model in found
    ]
    rest = [entry for name, entry in catalogue().items() if name not in names]
    if rest:
        lines += ["", f"To install with `{store.FETCH} NAME`:"]
        lines += [f"  {entry.name:24} {size_text(entry.download_bytes):>8}  {_conditions(entry)}" for entry in rest]
    if unfinished := store.unfinished():
        lines += ["", "Unfinished downloads, which the same command continues and `models remove NAME` deletes:"]
        lines += [f"  {download.name:24} {size_text(download.bytes):>8}" for download in unfinished]
    return "\n".join(lines)


def _origin(model: store.InstalledModel) -> str:
    expanded = f", expanded from {model.record.quantisation}" if model.record and model.record.quantisation else ""
    return (f"from {model.source}" if model.source else "put there by hand") + expanded


def _conditions(entry: CatalogueModel) -> str:
    return f"{entry.licence}{', to be accepted on the Hub' if entry.gated else ''}"
