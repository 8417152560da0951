"""Form of what a team writes about a run: title, tags and notes."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from webapp.runs.models import Run

MAX_TAG_LENGTH, MAX_NOTES = 40, 20_000


class RunForm(forms.Form):
    """Title, tags separated by commas, and notes in Markdown.

    The form is sent with what it showed, in `was_` fields: `changes`, the arguments of `do_update_run`, are the fields
    that its user changed, so that what others changed meanwhile stays.
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
    def values_of(run: Run) -> dict[str, str]:
        """Initial values of the form."""
        return {"title": run.title, "tags": ", ".join(run.tags), "notes": run.notes}

    def shown(self) -> dict[str, str]:
        """The values that the form showed, for its hidden fields, by their names."""
        return {f"was_{name}": str(self.data.get(f"was_{name}", self.initial[name])) for name in self.fields}

    def clean_tags(self) -> list[str]:
        """The tags, in order, each once. Raises ValidationError for new ones that are too long."""
        tags = _tags(self.cleaned_data["tags"])
        before = _tags(self.shown()["was_tags"])
        if long := next((tag for tag in tags if len(tag) > MAX_TAG_LENGTH and tag not in before), ""):
            raise ValidationError(f"“{long}” is too long for a tag: {MAX_TAG_LENGTH} characters at most.")
        return tags

    @property
    def changes(self) -> dict[str, Any]:
        """The valid values that differ from what the form showed."""
        shown = self.shown()
        before = {
            "title": _text(shown["was_title"]),
            "tags": _tags(shown["was_tags"]),
            "notes": _text(shown["was_notes"]),
        }
        values = {**self.cleaned_data, "notes": _text(self.cleaned_data["notes"])}
        return {name: values[name] for name, value in before.items() if values[name] != value}


def _tags(text: str) -> list[str]:
    return list(dict.fromkeys(tag for part in text.split(",") if (tag := part.strip())))


def _text(text: str) -> str:
    """As a browser sends it back, but with simple line breaks."""
    return text.replace("\r\n", "\n").strip()
