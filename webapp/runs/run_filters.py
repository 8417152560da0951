"""Filters and order of the list of runs, from the query string."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Func, OuterRef, Q, QuerySet, Subquery, TextField

from webapp.runs.models import Evaluation, MetricPoint, Run
from webapp.runs.summaries import ESTIMATORS

FIELDS = ("text", "state", "environment", "tag", "author", "algorithm", "mine", "sort")
VARIANTS = {
    "starpo": ("StarPO", Q(config__kind="train", config__algorithm__group_filter="none")),
    "starpo_s": ("StarPO-S", Q(config__kind="train") & ~Q(config__algorithm__group_filter="none")),
    "sft": ("SFT", Q(config__kind="sft")),
    "evaluate": ("Evaluation", Q(config__kind="evaluate")),
}
ACTIVE = "active"
"""Filter value for every state in which a run may still change."""
SORTS = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "success": "Best evaluation first",
    "reward": "Highest reward first",
    "title": "Title",
    "state": "State",
    "progress": "Furthest first",
}


@dataclass(frozen=True)
class Listing:
    """Filters of the query string. Invalid values are ignored."""

    text: str = ""
    state: str = ""
    environment: str = ""
    tag: str = ""
    author: str = ""
    algorithm: str = ""
    mine: str = ""
    sort: str = "newest"

    @property
    def filtered(self) -> bool:
        return any(getattr(self, name) for name in FIELDS if name != "sort")

    def runs(self, user: Any) -> QuerySet[Run]:
        """The matching runs of the user's teams, ordered."""
        runs = Run.objects.of_teams_of(user)
        if self.text:
            runs = runs.filter(
                Q(title__icontains=self.text)
                | Q(author__username__icontains=self.text)
                | Q(slug=self.text)
                | Q(tags__contains=[self.text.lower()])
            )
        if self.state == ACTIVE:
            runs = runs.filter(state__in=(Run.State.QUEUED, *Run.HELD))
        elif self.state in Run.State.values:
            runs = runs.filter(state=self.state)
        if self.environment:
            mixed = Q(config__environment__mix__contains=[{"name": self.environment}])
            runs = runs.filter(Q(environment=self.environment) | mixed)
        if self.tag:
            runs = runs.filter(tags__contains=[self.tag])
        if self.author:
            runs = runs.filter(author__username=self.author)
        if self.algorithm in VARIANTS:
            runs = runs.filter(VARIANTS[self.algorithm][1])
        elif self.algorithm in ESTIMATORS:
            runs = runs.filter(config__kind="train", config__algorithm__estimator=self.algorithm)
        if self.mine:
            runs = runs.filter(author_id=user.pk)
        return self._ordered(runs)

    def _ordered(self, runs: QuerySet[Run]) -> QuerySet[Run]:
        match self.sort:
            case "oldest":
                return runs.order_by("created_at", "pk")
            case "success":
                results = Evaluation.objects.filter(run=OuterRef("pk"), suite=OuterRef("environment"))
                newest = results.order_by("-iteration").values("success")[:1]
                return runs.annotate(result=Subquery(newest)).order_by(F("result").desc(nulls_last=True), "-pk")
            case "reward":
                rewards = MetricPoint.objects.filter(run=OuterRef("pk"), name="reward/mean")
                latest = rewards.order_by("-iteration").values("value")[:1]
                return runs.annotate(result=Subquery(latest)).order_by(F("result").desc(nulls_last=True), "-pk")
            case "title":
                return runs.order_by("title", "-pk")
            case "state":
                return runs.order_by("state", "-created_at", "-pk")
            case "progress":
                return runs.order_by("-iteration", "-pk")
        return runs.order_by("-created_at", "-pk")


def read(query: Mapping[str, str]) -> Listing:
    """The filters in a query string."""
    values = {name: query.get(name, "").strip()[:200] for name in FIELDS}
    if values["sort"] not in SORTS:
        values["sort"] = "newest"
    return Listing(**values)


def choices(user: Any) -> dict[str, list[str]]:
    """Options of the filters: environments, tags and authors of the runs of the user's teams. Two queries."""
    runs = Run.objects.of_teams_of(user).order_by()
    environments: set[str] = set()
    authors: set[str] = set()
    for environment, mix, author in runs.values_list(
        "environment", "config__environment__mix", "author__username"
    ).distinct():
        environments |= {environment, *(entry["name"] for entry in mix or [])}
        authors |= {author} - {None}
    each = Func(F("tags"), function="jsonb_array_elements_text", output_field=TextField())
    tags = runs.annotate(one=each).values_list("one", flat=True).distinct()
    return {
        "environments": sorted(environments, key=str.lower),
        "authors": sorted(authors, key=str.lower),
        "tags": sorted(set(tags), key=str.lower),
    }
