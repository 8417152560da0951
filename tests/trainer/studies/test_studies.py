"""Studies: every grid runs end to end, resumes after a stop, and reports what its journals contain."""

import json
import os
import shutil
import sys
from contextlib import closing, redirect_stdout
from dataclasses import replace
from io import StringIO
from xml.etree import ElementTree

import pytest
import yaml

import envs
from tests.tiers import nightly_but
from trainer.cli import main
from trainer.config.rollout import SYSTEM
from trainer.evaluation.suites import get_suites
from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.writer import Journal
from trainer.rollout.prompts import opening_message, repeated_line
from trainer.studies import cell_journal, command, grid, page, tables
from trainer.studies.catalogue import STUDIES, find
from trainer.studies.cell_settings import configuration
from trainer.studies.paper import REPORTED
from trainer.studies.reuse import reuse
from trainer.studies.significance import MIN_SEEDS
from trainer.studies.study import SCALES


@pytest.fixture(autouse=True)
def _signals(monkeypatch):
    """Keeps the signal handlers of the test process."""
    monkeypatch.setattr("signal.signal", lambda number, handler: None)


def smoke(name, folder, model, *more):
    return main.main(["study", name, "--scale", "smoke", "--out", str(folder), "--set", f"policy.model={model}", *more])


@pytest.fixture(scope="module")
def complete(tmp_path_factory, pocket_folder):
    """Runs a study once; gives a copy of its folder, with its page and figure, and what was printed."""
    made = {}

    def copy_of(name, folder):
        if name not in made:
            out = tmp_path_factory.mktemp(name)
            with redirect_stdout(StringIO()) as printed, pytest.MonkeyPatch.context() as patch:
                patch.setattr("signal.signal", lambda number, handler: None)
                assert smoke(name, out / "out", pocket_folder, "--docs", str(out / "docs")) == 0
            made[name] = out, printed.getvalue()
        out, printed = made[name]
        shutil.copytree(out / "out", folder, dirs_exist_ok=True)
        shutil.copytree(out / "docs", folder / "docs")
        return printed

    return copy_of


def never():
    return False


# -- whole studies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", nightly_but(STUDIES, ["figure-9"]))
def test_a_study_runs_end_to_end_and_is_plotted_beside_the_paper(name, tmp_path, complete):
    study = STUDIES[name]
    printed = complete(name, tmp_path)
    cells = len(study.environments) * len(study.arms)
    assert f"{cells} of {cells}: " in printed
    assert len(list(tmp_path.glob(f"*/*/*/{JOURNAL_FILE}"))) == cells
    text = (tmp_path / "docs" / f"{name}.md").read_text()
    assert text == (tmp_path / f"{name}.md").read_text()
    for arm in study.arms:
        assert f"| {arm.title} |" in text
    for reported in REPORTED[name]:
        assert reported.value in text
    for finding in study.findings:
        assert finding.text in text
    for suite in study.all_suites:
        assert f"| {suite} |" in text
    for fact in ("machine", "wall-clock time", "seeds", f"study {name} --scale smoke"):
        assert fact in text
    drawn = ElementTree.parse(tmp_path / "docs" / f"{name}.svg").getroot()
    words = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert all(arm.title in words for arm in study.arms)
    assert any(element.get("points") for element in drawn.iter("{http://www.w3.org/2000/svg}polyline"))


@pytest.mark.nightly
def test_a_stopped_cell_resumes_in_a_separate_process(tmp_path, pocket_folder):
    cells = grid.cells(find("table-4"), "smoke", 1, tmp_path, (f"policy.model={pocket_folder}", "iterations=3"))[:1]
    (cell,) = cells
    journal = cell.folder / JOURNAL_FILE

    def once_it_plays():
        return journal.exists() and b'"type":"turn"' in journal.read_bytes()

    messages = []
    assert grid.run(cells, 1, once_it_plays, messages.append, grid.run_in_subprocess) is False
    assert not grid.ended(cell.folder)
    assert messages == []
    assert grid.run(cells, 1, never, messages.append, grid.run_in_subprocess) is True
    assert len(messages) == 1
    outcome = cell_journal.read(cell)
    assert sorted(outcome.curves["success/rate"]) == [1, 2, 3]
    assert [evaluation.iteration for evaluation in outcome.evaluations["Bandit"]] == [0, 3]
    starts = [event for event in reader.read(journal) if isinstance(event, events.RunStarted)]
    assert len(starts) == 2
    assert outcome.megabytes > 50
    assert outcome.seconds > 0


@pytest.mark.nightly
def test_a_run_of_another_study_with_the_same_settings_is_not_repeated(tmp_path, pocket_folder, complete, capsys):
    complete("figure-8", tmp_path / "figure-8")
    record = json.loads((tmp_path / "figure-8" / command.RECORD).read_text())
    (tmp_path / "figure-8" / command.RECORD).write_text(json.dumps(record | {"machine": "a quantum abacus"}))
    base = tmp_path / "figure-8" / "sokoban" / "base" / "seed-0" / JOURNAL_FILE
    written = base.stat().st_mtime_ns
    capsys.readouterr()
    assert smoke("figure-5", tmp_path / "figure-5", pocket_folder, "--reuse", str(tmp_path)) == 0
    printed = capsys.readouterr().out
    assert "2 of 9 cells are runs of other studies with the same settings" in printed
    assert not (tmp_path / "figure-5" / "sokoban" / "ppo").exists()
    assert (tmp_path / "figure-5" / "sokoban" / "grpo" / "seed-0" / JOURNAL_FILE).exists()
    assert base.stat().st_mtime_ns == written
    text = (tmp_path / "figure-5" / "figure-5.md").read_text()
    assert "for 7 runs, 1 at a time; 2 runs were taken from other studies with the same settings" in text
    assert "a quantum abacus" in text
    assert "do not compare their times" in text
    assert "do not compare their times" not in (tmp_path / "figure-8" / "figure-8.md").read_text()


def test_only_complete_runs_with_the_same_settings_are_reused(tmp_path, pocket_folder, complete, capsys):
    complete("table-4", tmp_path / "table-4")
    lost, kept, *_ = grid.cells(find("table-4"), "smoke", 1, tmp_path / "new", (f"policy.model={pocket_folder}",))
    recorded = tmp_path / "table-4" / kept.folder.relative_to(tmp_path / "new")
    (tmp_path / "table-4" / lost.folder.relative_to(tmp_path / "new") / JOURNAL_FILE).unlink()
    changed = replace(kept, config=kept.config.model_copy(update={"seed": 1}))
    assert reuse([kept], [tmp_path])[0].folder == recorded
    assert reuse([changed, lost], [tmp_path]) == [changed, lost]
    assert smoke("table-4", tmp_path / "other", pocket_folder, "--reuse", str(tmp_path / "nowhere")) == 2
    assert "there is no such folder; name the --out of a study" in capsys.readouterr().err


def test_a_cell_with_other_settings_is_not_continued(tmp_path, pocket_folder, complete, capsys):
    complete("table-4", tmp_path)
    assert smoke("table-4", tmp_path, pocket_folder, "--set", "iterations=1") == 1
    assert "holds a cell with other settings: choose another --out" in capsys.readouterr().err


def test_a_cell_that_fails_is_named_with_its_reason(tmp_path):
    cells = grid.cells(find("table-4"), "smoke", 1, tmp_path, ("policy.model=/no/such/folder",))
    with pytest.raises(
        grid.CellFailedError, match=r"bandit_teacher/think/seed-0 failed: error: policy.model: there is no folder"
    ):
        grid.run(cells, 1, never, lambda line: None, grid.run_in_subprocess)
    assert not (tmp_path / "bandit_teacher" / "no-think").exists()


def test_a_cell_that_is_interrupted_after_its_end_is_complete(tmp_path, monkeypatch):
    (cell,) = grid.cells(find("table-4"), "smoke", 1, tmp_path)[:1]
    with closing(Journal(tmp_path / "written")) as journal:
        journal.write(events.RunFinished(reason="completed", iteration=2, message="All 2 iterations are done."))
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\ncp {journal.path} {cell.folder}\nkill -INT $$\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    messages = []
    assert grid.run([cell], 1, never, messages.append, grid.run_in_subprocess)
    assert len(messages) == 1


def test_evaluations_are_drawn_beside_what_was_played_in_training(tmp_path, complete):
    complete("appendix-c", tmp_path)
    picture_text = (tmp_path / "appendix-c.svg").read_text()
    for title in ("success on the evaluation puzzles", "success while training"):
        assert f"Sokoban: {title}" in picture_text


def test_only_missing_cells_are_run_and_all_machines_are_named(tmp_path, pocket_folder, complete, monkeypatch, capsys):
    def on(machine, *arguments):
        monkeypatch.setattr(command, "describe", lambda: f"{machine}, load before the start 0.1")
        assert smoke("table-4", tmp_path, pocket_folder, *arguments) == 0
        return json.loads((tmp_path / command.RECORD).read_text())["machine"]

    complete("table-4", tmp_path)
    sizes = {path: path.stat().st_size for path in tmp_path.rglob(JOURNAL_FILE)}
    assert len(sizes) == 4
    first = "a laptop, load before the start 0.1"
    record = json.loads((tmp_path / command.RECORD).read_text())
    (tmp_path / command.RECORD).write_text(json.dumps(record | {"machine": first}))
    assert on("a laptop") == first
    capsys.readouterr()
    both = on("a GPU", "--seeds", "2")
    assert both == f"{first}; a GPU, load before the start 0.1"
    assert "4 of 8 cells are already complete" in capsys.readouterr().out
    assert {path: path.stat().st_size for path in sizes} == sizes
    assert "| with a thought |" in (tmp_path / "table-4.md").read_text()
    assert "| seeds | 0 to 1 |" in (tmp_path / "table-4.md").read_text()
    assert on("a third one, which only writes the page", "--seeds", "2") == both


def test_the_runs_of_each_machine_are_named_if_there_are_several(tmp_path):
    cells = grid.cells(find("table-4"), "smoke", 3, tmp_path)
    for cell in cells:
        cell.folder.mkdir(parents=True)
        (cell.folder / grid.COST).write_text(json.dumps({"machines": ["a laptop"]}))
    assert page._machines(cells) == ""
    (cells[0].folder / grid.COST).write_text(json.dumps({"machines": ["a laptop", "a GPU"]}))
    arm = "Bandit (Teacher, Engineer), with a thought (seeds 0)"
    assert page._machines(cells) == f"a laptop; then a GPU: {arm}; a laptop: the others"


def test_invalid_arguments_are_reported_before_anything_runs(tmp_path, capsys):
    for arguments, message in (
        (["study"], "name a study: figure-5, figure-7"),
        (["study", "figure-1"], "unknown study 'figure-1'; choose one of figure-5"),
        (["study", "figure-9", "--seeds", "0"], "--seeds must be at least 1, not 0"),
        (["study", "figure-9", "--set", "iterations=0"], "iterations: must be greater than 0"),
        (["study", "figure-9", "--set", "iterations"], "--set takes section.field=value"),
    ):
        assert main.main([*arguments, "--out", str(tmp_path / "out")] if len(arguments) > 1 else arguments) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_list_shows_sizes_and_times(capsys):
    assert main.main(["study", "--list"]) == 0
    listing = capsys.readouterr().out
    assert "| figure-9 | StarPO against StarPO-S | 6, under a minute | 60, about " in listing
    assert all(f"| {name} |" in listing for name in STUDIES)


# -- the catalogue --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("scale", ["smoke", "pocket", "paper"])
def test_cells_of_a_study_differ_only_in_the_studied_settings(name, scale, tmp_path):
    study = STUDIES[name]
    cells = grid.cells(study, scale, 2, tmp_path)
    environments = study.environments
    assert len({cell.folder for cell in cells}) == len(cells) == 2 * len(environments) * len(study.arms)
    assert len({cell.config.digest() for cell in cells}) == len(cells)
    assert len({cell.config.evaluation.prompts for cell in cells}) == 1
    if scale != "smoke":
        played = {c.config.iterations * c.config.rollout.groups * c.config.rollout.group_size for c in cells}
        assert len(played) == 1, "all cells play as many trajectories"
    if scale != "smoke" and name not in ("table-2", "figure-10"):
        assert len({(c.config.iterations, c.config.rollout.groups, c.config.rollout.group_size) for c in cells}) == 1


@pytest.mark.parametrize("name", STUDIES)
def test_cells_at_the_scale_of_the_paper_read_its_wording(name, tmp_path):
    for cell in grid.cells(STUDIES[name], "paper", 1, tmp_path):
        rollout = cell.config.rollout
        for suite in get_suites(cell.config):
            environment = suite.config.environment
            text = opening_message(envs.spec(environment.name), rollout, environment)
            assert text.startswith("This is a "), f"{cell.name}: {suite.name}"
            assert ("<think>" in repeated_line(rollout)) == rollout.think
        assert rollout.system.startswith("You're a helpful assistant.")
        assert "<think>" not in rollout.system or rollout.think


def test_cells_recorded_before_some_settings_resume(tmp_path):
    cell = grid.cells(find("figure-9"), "pocket", 1, tmp_path)[-1]
    recorded = cell.config.model_dump(mode="json")
    del recorded["rollout"]["system"], recorded["rollout"]["format_line"]
    cell.folder.mkdir(parents=True)
    (cell.folder / grid.SETTINGS).write_text(yaml.safe_dump(recorded))
    grid.run([cell], 1, never, print, lambda cell, stop: None)


def test_cells_at_other_scales_read_the_default_wording(tmp_path):
    for cell in grid.cells(find("table-4"), "pocket", 1, tmp_path):
        assert (cell.config.rollout.format_line, cell.config.rollout.system) == ("auto", SYSTEM)


def test_arms_of_figure_10_differ_in_the_age_of_their_data_alone(tmp_path):
    study = find("figure-10")
    for scale in ("pocket", "paper"):
        configs = [configuration(study, scale, "sokoban", arm, 0) for arm in study.arms]
        updates = set()
        for arm, config in zip(study.arms, configs, strict=True):
            assert config.algorithm.updates_per_rollout == 1, "every batch is fresh"
            assert config.iterations * arm.stretch == configs[0].iterations
            updates.add(config.iterations * config.rollout.trajectories / config.optimizer.mini_batch_trajectories)
        assert len(updates) == 1


def test_table_4_is_trained_on_other_names_than_it_is_evaluated_in(tmp_path):
    study = find("table-4")
    for scale in ("pocket", "paper"):
        config = configuration(study, scale, "bandit_teacher", study.arms[0], 0)
        assert config.environment.settings == {"low_name": "Teacher", "high_name": "Engineer"}
        assert config.evaluation.suites == ["BanditTest", "BanditTest:low_name=Trader:high_name=Librarian"]


def test_every_study_has_seeds_enough_for_a_verdict():
    for study in STUDIES.values():
        assert all(study.seeds[scale] >= MIN_SEEDS for scale in SCALES if scale != "smoke")


def test_findings_and_figures_of_the_paper_name_existing_arms():
    assert set(REPORTED) == set(STUDIES)
    for name, study in STUDIES.items():
        arms = {arm.name for arm in study.arms}
        assert {arm for finding in study.findings for side in finding.sides for arm in side} <= arms
        for finding in study.findings:
            environments = finding.environments or study.environments
            assert set(environments) <= set(study.environments)
            assert all(finding.suite in {"", *study.get_suites(environment)} for environment in environments)
        assert {reported.arm for reported in REPORTED[name]} <= {"", *arms}
        assert {reported.environment for reported in REPORTED[name]} <= {"", *study.environments}


def test_the_pocket_study_of_figure_9_is_estimated_below_ninety_minutes_on_two_cores(tmp_path):
    cells = grid.cells(find("figure-9"), "pocket", 3, tmp_path)
    assert len(cells) == 18
    assert {cell.config.policy.threads for cell in cells} == {1}
    rates = {cell.config.environment.name: cell.config.optimizer.policy_lr for cell in cells}
    assert rates["FrozenLake"] == 4e-4
    assert {rate for name, rate in rates.items() if name != "FrozenLake"} == {2e-4}
    assert sum(command.estimate(cell.config, "pocket") for cell in cells) / 2 < 90 * 60


def test_adapters_are_estimated_to_take_longer():
    study = find("appendix-d")
    full, lora, *_ = (configuration(study, "pocket", "sokoban", arm, 0) for arm in study.arms)
    assert command.estimate(lora, "pocket") > 1.2 * command.estimate(full, "pocket")


def test_lora_uses_ten_times_the_learning_rate_and_fewer():
    study = find("appendix-d")
    full, lora, *_, last = (configuration(study, "paper", "sokoban", arm, 0) for arm in study.arms)
    assert (lora.lora.rank, lora.lora.alpha) == (64, 64)
    assert lora.optimizer.policy_lr == pytest.approx(10 * full.optimizer.policy_lr)
    assert lora.optimizer.critic_lr == pytest.approx(10 * full.optimizer.critic_lr)
    assert (last.lora.rank, last.optimizer.policy_lr) == (64, full.optimizer.policy_lr)


# -- plots and pages ------------------------------------------------------------------------------------------------


def test_the_page_is_made_from_the_records(tmp_path, complete):
    complete("table-4", tmp_path)
    record = json.loads((tmp_path / command.RECORD).read_text())
    assert f"{os.cpu_count()} cores" in record["machine"]
    text = (tmp_path / "table-4.md").read_text()
    assert record["machine"] in text
    assert text.count("\n| ") == text.count(" |\n")
    assert tables.table(("a", "b"), [("1|2", "3")]) == "| a | b |\n| --- | --- |\n| 1\\|2 | 3 |"
