"""Form of the title, tags and notes that a team gives to a run."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from webapp.runs.models import Run

MAX_TAG_LENGTH, MAX_NOTES = 40, 20_000


class RunForm(forms.Form):
    """Title, tags separated by commas, and notes in Markdown.

    The form is sent with the values that it showed, in `was_` fields. `changes`, the arguments of `do_update_run`, are
    only the fields that the user changed, so that simultaneous changes by others are kept.
    """

    title = forms.CharField(max_length=200)
    tags = forms.CharField(required=False, help_text="Separated by commas, to find the run by.")
    notes = forms.CharField(
        required=False,
        max_length=MAX_NOTES,
        widget=forms.Textarea(attrs={"rows": 10}),
        help_text="Markdown: what was tried and what came out. Shown above the run's pages to all who may see the run.",
    )

    @staticmethod
    def initial_values(run: Run) -> dict[str, str]:
        """Return the initial values of the form."""
        return {"title": run.title, "tags": ", ".join(run.tags), "notes": run.notes}

    def shown(self) -> dict[str, str]:
        """Return the values that the form showed, by the names of its hidden fields."""
        return {f"was_{name}": str(self.data.get(f"was_{name}", self.initial[name])) for name in self.fields}

    def clean_tags(self) -> list[str]:
        """Return the tags, in order, each once. Raises ValidationError for new ones that are too long."""
        tags = _tags(self.cleaned_data["tags"])
        shown_tags = _tags(self.shown()["was_tags"])
        if long := next((tag for tag in tags if len(tag) > MAX_TAG_LENGTH and tag not in shown_tags), ""):
            raise ValidationError(f"“{long}” is too long for a tag: {MAX_TAG_LENGTH} characters at most.")
        return tags

    @property
    def changes(self) -> dict[str, Any]:
        """The valid values that differ from what the form showed."""
        shown = self.shown()
        previous = {
            "title": _text(shown["was_title"]),
            "tags": _tags(shown["was_tags"]),
            "notes": _text(shown["was_notes"]),
        }
        values = {**self.cleaned_data, "notes": _text(self.cleaned_data["notes"])}
        return {name: values[name] for name, value in previous.items() if values[name] != value}


def _tags(text: str) -> list[str]:
    return list(dict.fromkeys(tag for part in text.split(",") if (tag := part.strip())))


def _text(text: str) -> str:
    """Normalise the line breaks that a browser sends."""
    return text.replace("\r\n", "\n").strip()
