"""Cards of models for the launch form, the workers page and the API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from trainer.config.catalogue import CatalogueModel, catalogue
from trainer.config.files import load_preset, preset_names
from trainer.config.run import POCKET, RunConfig
from trainer.models.listing import size_text
from webapp.core import formatting
from webapp.core.database import database_now
from webapp.runs.launch import estimates
from webapp.runs.launch.fields import with_labels
from webapp.runs.launch.recorded_work import RecordedWork, recorded_work
from webapp.runs.model_cards.fit import WorkerFit, fits
from webapp.runs.models import StoredModel, Worker
from webapp.runs.queue.model_availability import progress_text
from webapp.runs.stored_models import model_requests
from webapp.teams.models import User

GPU_PARAMETERS = 700_000_000
"""Models above this size take hours per run on a CPU, even where they fit."""


@dataclass(frozen=True)
class StoreStatus:
    """A models folder of live workers, and a model's state in it."""

    store: str
    workers: tuple[str, ...]
    stored: StoredModel | None
    may_manage: bool
    silent: bool = False

    @property
    def state(self) -> str:
        """State of the model there; “absent” without a row."""
        return self.stored.state if self.stored else "absent"

    @property
    def place(self) -> str:
        return ", ".join(self.workers)

    @property
    def may_download(self) -> bool:
        """True if a download can be started, or started again after a failure."""
        return self.state in ("absent", StoredModel.State.FAILED)

    @property
    def pending(self) -> bool:
        return self.stored is not None and self.stored.pending

    @property
    def changing(self) -> bool:
        """True if the state changes by itself soon, so that an open page polls again."""
        return self.pending or self.state == StoredModel.State.DELETING

    @property
    def progress(self) -> str:
        """Progress as text, e.g. “downloading on worker@a (41%)”."""
        return progress_text(self.stored) if self.stored and self.stored.pending else ""

    @property
    def amount(self) -> str:
        """Progress in bytes, e.g. “38 of 93 MB”; empty before the first report."""
        if self.stored is None or not self.stored.total_bytes or not self.stored.stage:
            return ""
        return _joined_sizes(self.stored.done_bytes, "of", self.stored.total_bytes)


@dataclass(frozen=True)
class ModelCard:
    """A model as a choice of the launch form.

    Attributes:
        value: for `policy.model`.
        downloads: bytes of the download from each source.
        preset: shipped preset of the form's environment that suits the model; empty without one.
        stores: folders of the live workers; empty for the pocket policy, which every worker has.
        fits: for each live worker, how a run with the model fits.
        expected: time of a run with it; None if unknown.
    """

    value: str
    name: str
    label: str
    parameters: int
    licence: str
    licence_url: str = ""
    gated: bool = False
    thinking: bool | None = None
    learns: str = ""
    downloads: tuple[int, ...] = ()
    preset: str = ""
    stores: tuple[StoreStatus, ...] = ()
    fits: tuple[WorkerFit, ...] = ()
    expected: estimates.ExpectedTime | None = None
    in_catalogue: bool = True
    source: str = ""

    @property
    def id(self) -> str:
        """Element id."""
        return "model-" + self.name.replace(".", "-")

    @property
    def size(self) -> str:
        """Number of parameters, e.g. “135 M parameters”; empty if unknown."""
        return f"{parameters_text(self.parameters)} parameters" if self.parameters else ""

    @property
    def download_size(self) -> str:
        """Size of the download, which depends on the source, e.g. “93 to 273 MB”."""
        return download_text(self.downloads) if self.downloads else ""

    @property
    def time(self) -> str:
        """Expected time of the form's run, e.g. “about 12 min”; empty if unknown."""
        return "" if self.expected is None else self.expected.text

    @property
    def shipped(self) -> bool:
        return self.value == POCKET

    @property
    def installed(self) -> bool:
        """True if a live worker has the model."""
        return self.shipped or any(store.state == StoredModel.State.INSTALLED for store in self.stores)

    @property
    def changing(self) -> bool:
        return any(store.changing for store in self.stores)

    @property
    def out_of_reach(self) -> bool:
        """True if no live worker can train it, so that the form folds its card."""
        return not self.installed and bool(self.fits) and all(fit.verdict in ("gpu", "large") for fit in self.fits)

    @property
    def slow_without_gpu(self) -> bool:
        """True if a run takes hours on a CPU even with enough memory."""
        return self.parameters > GPU_PARAMETERS


@dataclass(frozen=True)
class StoreListing:
    """A models folder on the workers page, with its rows."""

    store: str
    workers: tuple[str, ...]
    rows: tuple[StoreRow, ...]

    @property
    def place(self) -> str:
        return ", ".join(self.workers)

    @property
    def size(self) -> str:
        """Size of the installed models together; empty without one."""
        total = sum(row.stored.bytes for row in self.rows if row.installed)
        return size_text(total) if total else ""


@dataclass(frozen=True)
class StoreRow:
    """A model in a folder, with the numbers of active (queued or running) and paused (or stopped) runs that use it."""

    stored: StoredModel
    status: StoreStatus
    label: str
    active: int
    paused: int

    @property
    def installed(self) -> bool:
        return self.stored.state == StoredModel.State.INSTALLED

    @property
    def size(self) -> str:
        return size_text(self.stored.bytes)

    @property
    def origin(self) -> str:
        """Licence and source, as far as they are known."""
        known = catalogue().get(self.stored.name)
        return " · ".join(filter(None, (known.licence if known else self.stored.licence, self.stored.source)))

    @property
    def may_cancel(self) -> bool:
        """True if the user may cancel its download, or remove a failed one from the list."""
        return self.status.may_manage and (self.status.pending or self.status.may_download)

    @property
    def cancel_label(self) -> str:
        return "Cancel" if self.status.pending else "Dismiss"

    @property
    def consequence(self) -> str:
        """Consequence of its deletion, for the confirmation."""
        waits = f" {formatting.plural(self.paused, 'paused or stopped run')} will wait for it when resumed."
        return f"It frees {self.size}.{waits if self.paused else ''} It can be downloaded again."

    @property
    def used(self) -> str:
        """Numbers of runs that use it, e.g. “2 queued or running, 1 paused”."""
        parts = [f"{self.active} queued or running"] if self.active else []
        parts += [f"{self.paused} paused or stopped"] if self.paused else []
        return ", ".join(parts) or "no run"


def cards(user: User, config: RunConfig, chosen: str = "", *, estimate: bool = True) -> list[ModelCard]:
    """Return the cards: the pocket policy, the catalogue, then other installed models.

    Args:
        config: configuration of the form, from which memory and time follow.
        chosen: the preset of the form; suggested presets have the same environment and algorithm.
        estimate: True to compute memory and time, with three queries.
    """
    now = database_now()
    stores = model_requests.live_stores(now)
    rows = _rows(stores)
    workers = [worker for group in stores.values() for worker in group]
    presets = _presets(chosen)
    others = sorted({name for name, _ in rows} - catalogue().keys())
    result = [
        _pocket_card(presets),
        *(
            _catalogue_card(model, config, presets, _statuses(user, model.name, stores, rows, now))
            for model in catalogue().values()
        ),
        *(_other_card(name, _statuses(user, name, stores, rows, now)) for name in others),
    ]
    if not estimate:
        return result
    recorded = recorded_work(user)
    return [_estimated(recorded, config, card, workers) for card in result]


def status_cards(user: User) -> list[ModelCard]:
    """Return the cards without estimates, for pages that poll the progress of downloads. Two queries."""
    return cards(user, RunConfig(), estimate=False)


def polling(shown: Sequence[ModelCard]) -> dict[str, object]:
    """Return what an element that polls the states needs: whether it must poll, and the models installed now."""
    return {
        "change": any(card.changing for card in shown),
        "installed": " ".join(card.name for card in shown if card.installed),
    }


def suitable_worker(config: RunConfig, queue: str) -> str:
    """Return a live worker of that queue, preferably with enough memory; empty if none."""
    stores = model_requests.live_stores(database_now())
    serving = [worker for group in stores.values() for worker in group if queue in worker.queues]
    fitting = [fit.worker for fit in fits(config, serving) if fit.verdict in ("fits", "unknown")]
    return next(iter([*fitting, *(worker.name for worker in serving)]), "")


def listings(user: User) -> list[StoreListing]:
    """Return the models folders of the live workers with their models, for the workers page. Three queries."""
    now = database_now()
    stores = model_requests.live_stores(now)
    rows = _rows(stores)
    uses = model_requests.uses(sorted({name for name, _ in rows}))
    result = []
    for store, workers in stores.items():
        names = tuple(worker.name for worker in workers)
        shown = []
        for (name, row_store), stored in rows.items():
            if row_store == store:
                status = _status(user, store, workers, stored, now)
                label = catalogue()[name].label if name in catalogue() else name
                shown.append(StoreRow(stored, status, label, *uses[name]))
        result.append(StoreListing(store, names, tuple(shown)))
    return result


def _rows(stores: Mapping[str, Sequence[Worker]]) -> dict[tuple[str, str], StoredModel]:
    rows = StoredModel.objects.filter(store__in=stores).select_related("worker").order_by("name")
    return {(row.name, row.store): row for row in rows}


def _statuses(
    user: User,
    name: str,
    stores: Mapping[str, Sequence[Worker]],
    rows: Mapping[tuple[str, str], StoredModel],
    now: datetime,
) -> tuple[StoreStatus, ...]:
    return tuple(_status(user, store, workers, rows.get((name, store)), now) for store, workers in stores.items())


def _status(
    user: User, store: str, workers: Sequence[Worker], stored: StoredModel | None, now: datetime
) -> StoreStatus:
    manage = stored is not None and model_requests.may_manage(user, stored)
    silent = stored is not None and stored.is_silent(now)
    return StoreStatus(store, tuple(worker.name for worker in workers), stored, manage, silent)


def _pocket_card(presets: Mapping[str, str]) -> ModelCard:
    return ModelCard(
        value=POCKET,
        name=POCKET,
        label="Pocket policy",
        parameters=0,
        licence="Apache-2.0",
        learns="Everything here in minutes on any CPU: a tiny model that Echoscope trained on its own environments.",
        preset=presets.get(POCKET, ""),
        source="ships with Echoscope",
    )


def _catalogue_card(
    model: CatalogueModel, config: RunConfig, presets: Mapping[str, str], stores: tuple[StoreStatus, ...]
) -> ModelCard:
    hub_id = model.hub_id or ""
    return ModelCard(
        value=hub_id if config.policy.model == hub_id else model.name,
        name=model.name,
        label=model.label,
        parameters=model.parameters,
        licence=model.licence,
        licence_url=model.licence_url,
        gated=model.gated,
        thinking=model.thinking,
        learns=with_labels(model.learns),
        downloads=tuple(source.download_bytes for source in model.sources),
        preset=presets.get(model.name) or presets.get(hub_id, ""),
        stores=stores,
    )


def _other_card(name: str, stores: tuple[StoreStatus, ...]) -> ModelCard:
    row = next((status.stored for status in stores if status.stored), None)
    return ModelCard(
        value=name,
        name=name,
        label=name,
        parameters=0,
        licence=row.licence if row else "",
        stores=stores,
        in_catalogue=False,
        source=row.source if row else "",
    )


def _presets(chosen: str) -> dict[str, str]:
    """Return presets by `policy.model` for the environment of the chosen preset, preferably with its algorithm."""
    if chosen not in preset_names():
        return {}
    environment, arm, _ = chosen.split("-", 2)
    candidates: dict[str, list[str]] = defaultdict(list)
    for name in preset_names():
        if name.split("-")[0] == environment and not name.endswith("-trap"):
            candidates[load_preset(name).policy.model].append(name)
    return {model: min(names, key=lambda name: name.split("-")[1] != arm) for model, names in candidates.items()}


def _estimated(
    recorded: Sequence[RecordedWork], config: RunConfig, card: ModelCard, workers: Sequence[Worker]
) -> ModelCard:
    """Return the card with its memory on each worker and its time."""
    policy = config.policy.model_copy(update={"model": card.value, "revision": ""})
    model_config = config.model_copy(update={"policy": policy})
    expected = estimates.time_given(recorded, [model_config], gpu=any(worker.gpus for worker in workers))
    return replace(card, fits=tuple(fits(model_config, workers)), expected=expected)


def parameters_text(number: int) -> str:
    """Return a number of parameters, e.g. “135 M” or “1.7 B”."""
    return f"{number / 1e9:.1f} B" if number >= 999_500_000 else f"{number / 1e6:.0f} M"


def download_text(sizes: Sequence[int]) -> str:
    """Return the size of a download, whose sources may differ: “93 MB” or “93 to 273 MB”."""
    if size_text(min(sizes)) == size_text(max(sizes)):
        return size_text(max(sizes))
    return _joined_sizes(min(sizes), "to", max(sizes))


def _joined_sizes(first: int, word: str, second: int) -> str:
    """Return two sizes in bytes with a shared unit, e.g. “38 of 93 MB”, or with both, e.g. “38 MB of 3.4 GB”."""
    number, unit = size_text(first).split()
    last = size_text(second)
    return f"{number} {word} {last}" if last.endswith(unit) else f"{number} {unit} {word} {last}"
