"""Filters and order of the list of runs, from the query string."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import F, Func, Max, OuterRef, Q, QuerySet, Subquery, TextField

from webapp.runs.models import Evaluation, MetricPoint, Run
from webapp.runs.summaries import ESTIMATORS

FIELDS = (
    "text",
    "state",
    "environment",
    "tag",
    "group",
    "team",
    "author",
    "algorithm",
    "mine",
    "archived",
    "sort",
    "flat",
    "hide",
)
_UNFILTERED = Q(config__algorithm__group_filter="none") | Q(
    config__algorithm__group_filter__in=("std", "std_rev", "range"), config__algorithm__group_filter_keep=1
)
"""The condition `AlgorithmConfig.filters_groups` for stored configurations."""
VARIANTS = {
    "starpo": ("StarPO", Q(config__kind="train") & _UNFILTERED),
    "starpo_s": ("StarPO-S", Q(config__kind="train") & ~_UNFILTERED),
    "sft": ("SFT", Q(config__kind="sft")),
    "evaluate": ("Evaluation", Q(config__kind="evaluate")),
}
ACTIVE = "active"
"""Filter value for all states in which a run may still change."""
MAX_GROUPS = 100
"""Newest groups offered as a filter."""
SORTS = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "success": "Best evaluation first",
    "training": "Highest training success first",
    "reward": "Highest reward first",
    "title": "Title",
    "state": "State",
    "author": "Author",
    "device": "Device",
    "progress": "Furthest first",
}
"""Orders by name; with a leading “-” reversed."""
COLUMNS = (
    ("title", "Run"),
    ("board", "Board"),
    ("state", "State"),
    ("success", "Evaluation"),
    ("training", "Training success"),
    ("reward", "Reward"),
    ("author", "Author"),
    ("device", "Device"),
    ("newest", "Launched"),
)
"""Columns of the table, as (key, title). Columns with a key in SORTS can be sorted."""
_TEXT_ORDERS = {"title": ("title",), "state": ("state",), "author": ("author__username",), "device": ("device",)}


def _newest_metric(name: str) -> Subquery:
    points = MetricPoint.objects.filter(run=OuterRef("pk"), name=name)
    return Subquery(points.order_by("-iteration").values("value")[:1])


_VALUES = {
    "success": Subquery(
        Evaluation.objects.filter(run=OuterRef("pk"), suite=OuterRef("environment"))
        .order_by("-iteration")
        .values("success")[:1]
    ),
    "training": _newest_metric("success/rate"),
    "reward": _newest_metric("reward/mean"),
    "progress": F("iteration"),
}


@dataclass(frozen=True)
class Listing:
    """Filters of the query string. Invalid values are ignored."""

    text: str = ""
    state: str = ""
    environment: str = ""
    tag: str = ""
    group: str = ""
    team: str = ""
    """Slug: two teams may have groups of the same name."""
    author: str = ""
    algorithm: str = ""
    mine: str = ""
    archived: str = ""
    sort: str = "newest"
    flat: str = ""
    """Not empty: a row for each run, also for the runs of a study or of a configuration."""
    hide: str = ""
    """Hidden columns, separated by spaces; “none” for a view that shows all of them."""

    @property
    def filtered(self) -> bool:
        return any(getattr(self, name) for name in FIELDS if name not in ("sort", "flat", "hide"))

    def runs(self, user: Any) -> QuerySet[Run]:
        """Return the matching runs of the user's teams, ordered."""
        runs = Run.objects.listed_for(user).with_alarm()
        if self.text:
            runs = runs.filter(
                Q(title__icontains=self.text)
                | Q(author__username__icontains=self.text)
                | Q(slug=self.text)
                | Q(group__icontains=self.text)
                | Q(tags__contains=[self.text.lower()])
            )
        if self.environment:
            mixed = Q(config__environment__mix__contains=[{"name": self.environment}])
            runs = runs.filter(Q(environment=self.environment) | mixed)
        equal = {
            "tags__contains": [self.tag] if self.tag else None,
            "group": self.group,
            "team__slug": self.team,
            "author__username": self.author,
        }
        if self.mine:
            runs = runs.filter(author_id=user.pk)
        runs = runs.filter(self._state(), self._algorithm(), archived_at__isnull=not self.archived)
        return self._ordered(runs.filter(**{field: value for field, value in equal.items() if value}))

    def _state(self) -> Q:
        if self.state == ACTIVE:
            return Q(state__in=(Run.State.QUEUED, *Run.HELD))
        return Q(state=self.state) if self.state in Run.State.values else Q()

    def _algorithm(self) -> Q:
        if self.algorithm in VARIANTS:
            return VARIANTS[self.algorithm][1]
        if self.algorithm in ESTIMATORS:
            return Q(config__kind="train", config__algorithm__estimator=self.algorithm)
        return Q()

    def _ordered(self, runs: QuerySet[Run]) -> QuerySet[Run]:
        key, reverse = self.sort.removeprefix("-"), self.sort.startswith("-")
        if key in ("newest", "oldest"):
            sign = "-" if (key == "newest") != reverse else ""
            return runs.order_by(f"{sign}created_at", f"{sign}pk")
        if key in _TEXT_ORDERS:
            sign = "-" if reverse else ""
            return runs.order_by(*(sign + name for name in _TEXT_ORDERS[key]), "-created_at", "-pk")
        runs = runs.annotate(sorted_by=_VALUES[key])
        value = F("sorted_by")
        order = value.asc(nulls_last=True) if reverse else value.desc(nulls_last=True)
        return runs.order_by(order, "-pk")

    @property
    def sorts(self) -> list[tuple[str, str]]:
        """Options of the order, with the current one if it is reversed."""
        key = self.sort.removeprefix("-")
        reversed_now = [] if key == self.sort else [(self.sort, f"{SORTS[key]}, reversed")]
        return [*SORTS.items(), *reversed_now]

    @property
    def columns(self) -> list[SortHeader]:
        """Headers of the table."""
        return [SortHeader(key, title, self.sort) for key, title in COLUMNS]


@dataclass(frozen=True)
class SortHeader:
    """A header of the table. If it is `sortable`, a click sorts by it, and a second one reverses the order."""

    key: str
    title: str
    sort: str

    @property
    def sortable(self) -> bool:
        return self.key in SORTS

    @property
    def next(self) -> str:
        """The `sort` that a click leads to."""
        return f"-{self.key}" if self.sort == self.key else self.key

    @property
    def aria_sort(self) -> str:
        """Value of the header's `aria-sort`, empty if the table is sorted by another column."""
        if self.sort not in (self.key, f"-{self.key}"):
            return ""
        return "ascending" if (self.key in _TEXT_ORDERS) != self.sort.startswith("-") else "descending"


def read(query: Mapping[str, str]) -> Listing:
    """Return the filters in a query string."""
    values = {name: query.get(name, "").strip()[:200] for name in FIELDS}
    if values["sort"].removeprefix("-") not in SORTS:
        values["sort"] = "newest"
    known = [key for key, _ in COLUMNS if key != "title"]
    hidden = values["hide"].split()
    values["hide"] = " ".join(key for key in known if key in hidden) or ("none" if "none" in hidden else "")
    return Listing(**values)


def query(listing: Listing) -> str:
    """Return the shortest query string with these filters, order and hidden columns."""
    values = {name: getattr(listing, name) for name in FIELDS}
    return urlencode({name: value for name, value in values.items() if value and (name, value) != ("sort", "newest")})


def choices(user: Any) -> dict[str, list[str]]:
    """Return the options of the filters: environments, tags, groups and authors of the teams' runs. Three queries."""
    runs = Run.objects.listed_for(user).order_by()
    environments: set[str] = set()
    authors: set[str] = set()
    for environment, mix, author in runs.values_list(
        "environment", "config__environment__mix", "author__username"
    ).distinct():
        environments |= {environment, *(entry["name"] for entry in mix or [])}
        authors |= {author} - {None}
    tag = Func(F("tags"), function="jsonb_array_elements_text", output_field=TextField())
    tags = runs.annotate(one=tag).values_list("one", flat=True).distinct()
    groups = runs.exclude(group="").values("group").annotate(newest=Max("created_at")).order_by("-newest")
    return {
        "groups": [row["group"] for row in groups[:MAX_GROUPS]],
        "environments": sorted(environments, key=str.lower),
        "authors": sorted(authors, key=str.lower),
        "tags": sorted(set(tags), key=str.lower),
    }
