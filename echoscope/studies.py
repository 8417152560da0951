"""Studies of a site: grids and searches of runs under one name.

site.studies.launch("grid", preset="bandit-starpo_s-pocket", axes={"algorithm.kl_coef": [0, 0.001]}, seeds=3)
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from echoscope import models
from echoscope.transport import Transport

StudyKind = Literal["catalogue", "grid", "random", "bayesian"]
StudyAction = Literal["pause", "resume", "cancel", "undo-cancel"]


class Studies:
    """Operations on studies. All methods raise the exceptions of echoscope.errors."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, **filters: Any) -> Iterator[models.Study]:
        """Yield studies that match the filters (names as in /api/docs), newest first, fetched page by page."""
        for item in self._transport.items("/studies", {"limit": 100, **filters}):
            yield models.Study.model_validate(item)

    def get(self, study: str) -> models.StudyDetail:
        """Return a study with its arms and verdicts so far."""
        return models.StudyDetail.model_validate(self._transport.send("GET", f"/studies/{study}").json())

    def launch(
        self,
        kind: StudyKind,
        *,
        axes: Mapping[str, Sequence[Any]] | None = None,
        space: Sequence[Mapping[str, Any]] | None = None,
        key: str | None = None,
        **plan: Any,
    ) -> models.StudyDetail:
        """Launch a study.

        Args:
            axes: axes of a grid: dotted setting → values.
            space: ranges of a search, each {setting, low, high, log} or {setting, values}.
            key: idempotency key: a repeated call returns the same study.
            plan: other fields of the request, as in /api/docs, such as study, scale, preset, overrides, seeds, trials.
        """
        body: dict[str, Any] = {"kind": kind, **plan}
        if axes is not None:
            body["axes"] = [{"setting": name, "values": [*values]} for name, values in axes.items()]
        if space is not None:
            body["space"] = [dict(dimension) for dimension in space]
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        answer = self._transport.send("POST", "/studies", body=body, headers=headers, repeatable=True)
        return models.StudyDetail.model_validate(answer.json())

    def control(self, study: str, action: StudyAction) -> models.StudyControlled:
        """Pause, resume or cancel a study with all of its runs, or undo its cancellation."""
        answer = self._transport.send("POST", f"/studies/{study}/control", body={"action": action})
        return models.StudyControlled.model_validate(answer.json())

    def share(self, study: str, visibility: Literal["team", "link"], *, with_runs: bool = False) -> models.Study:
        """Set who can read a study, and on request its runs."""
        body = {"visibility": visibility, "with_runs": with_runs}
        return models.Study.model_validate(self._transport.send("PATCH", f"/studies/{study}", body=body).json())

    def export(self, study: str, kind: Literal["markdown", "svg", "csv"] = "markdown") -> str:
        """Return the page as Markdown, its charts as SVG, or its runs as CSV."""
        return self._transport.send("GET", f"/studies/{study}/export/{kind}").text
