"""Base classes of the generated models in echoscope.models."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

ENDED = ("stopped", "finished", "failed", "cancelled")
"""Final states of a run, unless it is resumed."""


class Answer(BaseModel):
    """A JSON object of a response. Unknown fields of newer sites are kept as extras."""

    model_config = ConfigDict(extra="allow", frozen=True)


class RunAnswer(Answer):
    """A run with properties derived from its state."""

    state: str

    @property
    def ended(self) -> bool:
        """True if the run has ended; it continues only if it is resumed."""
        return self.state in ENDED
