"""The model card in the archive of a policy: what the site knows of the run up to the checkpoint."""

from __future__ import annotations

import pytest
from huggingface_hub import ModelCard

from tests.webapp.page_requests import play
from trainer.journal.protocol import JOURNAL_FILE
from webapp.runs.models import Evaluation, Run
from webapp.trajectories.exports.policy_archive import card_files


@pytest.mark.django_db
def test_the_card_states_the_run_up_to_the_checkpoint(run: Run) -> None:
    play(run, finished=3)
    files = card_files(run, 2)
    assert sorted(files) == ["README.md", "success.svg", "training_config.yaml"]
    text = files["README.md"].decode()
    card = ModelCard(text)
    assert card.data.library_name == "transformers"
    assert f"# {run.title}" in text
    assert "These are the weights after iteration 2 of " in text
    assert "| environment | Sokoban |" in text
    assert "## A trajectory" in text
    assert "Iteration 2, " in text
    later = Evaluation.objects.filter(run=run, iteration=3)
    assert later.exists() is False or "| 3 |" not in text
    assert "python -m trainer train --preset" in text


@pytest.mark.django_db
def test_the_card_needs_neither_the_journal_nor_a_trajectory(run: Run) -> None:
    play(run, finished=1)
    (run.folder / JOURNAL_FILE).unlink()
    run.trajectories.all().delete()
    text = card_files(run, 1)["README.md"].decode()
    assert "| versions | not recorded |" in text
    assert "## A trajectory" not in text


@pytest.mark.django_db
def test_settings_of_another_trainer_have_no_card(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(config={"recorded": {"lr": 1}})
    run.refresh_from_db()
    assert card_files(run, 1) == {}
