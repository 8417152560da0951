"""The first run with a real language model, which the list of runs offers with one click."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.config.catalogue import catalogue
from trainer.config.files import load_preset
from webapp.core.database import database_now
from webapp.runs.model_cards.cards import download_text
from webapp.runs.models import StoredModel
from webapp.runs.stored_models import model_requests

REAL_MODEL_PRESET = "bandit-starpo_s-smollm2"
LAUNCH_KEY = "real-model"
"""Launch key of every click, so that a second one opens the run of the first."""


@dataclass(frozen=True)
class RealModelOffer:
    """The offer. `size` of the download, empty if it is installed; `problem`: error of the last download."""

    label: str
    size: str
    problem: str

    @property
    def about(self) -> str:
        """Description of the action."""
        action = f"Downloads {self.label}, then trains it" if self.size else f"Trains {self.label}"
        return f"{action} on a bandit, which takes some minutes on a CPU"


def real_model_offer() -> RealModelOffer | None:
    """Return the offer; None without the preset's model in the catalogue. Two queries."""
    model = catalogue().get(load_preset(REAL_MODEL_PRESET).policy.model)
    if model is None:
        return None
    stores = model_requests.live_stores(database_now())
    rows = list(StoredModel.objects.filter(name=model.name, store__in=stores))
    if any(row.state == StoredModel.State.INSTALLED for row in rows):
        return RealModelOffer(model.label, "", "")
    problem = next((row.error for row in rows if row.state == StoredModel.State.FAILED), "")
    return RealModelOffer(model.label, download_text([source.download_bytes for source in model.sources]), problem)
