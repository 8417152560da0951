"""Configuration page: exports first, what differs from the preset, then every setting."""

from __future__ import annotations

from tests.webapp.page_requests import Visitors, who
from trainer.config.dotted import leaves
from trainer.config.files import load_preset, with_values
from webapp.runs.configuration import sections
from webapp.runs.models import Run

__all__ = ["who"]

PRESET = "sokoban-starpo_s-pocket"


def test_the_page_begins_with_exports_and_with_what_was_changed(run: Run, who: Visitors) -> None:
    config = with_values(load_preset(PRESET), {"optimizer.policy_lr": 3e-4, "environment.settings.size": 7})
    run.config, run.preset = config.model_dump(mode="json"), PRESET
    run.save()
    shown = sections(run)
    settings = {setting.name: setting for section in shown for setting in section.settings}
    assert set(settings) == {name for name, _ in leaves(run.config)}
    changed = {name: (each.value, each.preset) for name, each in settings.items() if each.preset is not None}
    before = load_preset(PRESET)
    assert changed["optimizer.policy_lr"] == ("0.0003", f"{before.optimizer.policy_lr:g}")
    assert changed["environment.settings.size"][0] == "7"
    assert set(changed) <= {"optimizer.policy_lr", "environment.settings.size"}
    page = who.viewer.get(f"/runs/{run.slug}/configuration").content.decode()
    places = [
        page.index(text) for text in ("Export</h2>", f"Changes from the preset {PRESET}", "All settings", "As YAML")
    ]
    assert places == sorted(places)


def test_settings_that_this_version_does_not_know_are_shown(run: Run, who: Visitors) -> None:
    run.config["optimizer"]["forgotten"] = 3
    run.save()
    assert "optimizer.forgotten" in who.viewer.get(f"/runs/{run.slug}/configuration").content.decode()
