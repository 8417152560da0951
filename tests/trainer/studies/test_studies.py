"""Studies: every grid runs end to end, resumes after a stop, and reports what its journals contain."""

import json
import os
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.cli import main
from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.writer import Journal
from trainer.studies import command, grid, page, results
from trainer.studies.catalogue import STUDIES, Finding, configuration, find
from trainer.studies.drawing import Panel, PlotSeries, _ticks, picture
from trainer.studies.paper import REPORTED
from trainer.studies.results import EvaluationResult, Outcome, collapse, verdicts


@pytest.fixture(autouse=True)
def _signals(monkeypatch):
    """Keeps the signal handlers of the test process."""
    monkeypatch.setattr("signal.signal", lambda number, handler: None)


def smoke(name, folder, model, *more):
    return main.main(["study", name, "--scale", "smoke", "--out", str(folder), "--set", f"policy.model={model}", *more])


def never():
    return False


# -- whole studies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_runs_end_to_end_and_is_plotted_beside_the_paper(name, tmp_path, pocket_folder, capsys):
    study = STUDIES[name]
    assert smoke(name, tmp_path / "out", pocket_folder, "--docs", str(tmp_path / "docs")) == 0
    cells = len(study.environments) * len(study.arms)
    assert f"{cells} of {cells}: " in capsys.readouterr().out
    assert len(list((tmp_path / "out").glob(f"*/*/*/{JOURNAL_FILE}"))) == cells
    text = (tmp_path / "docs" / f"{name}.md").read_text()
    assert text == (tmp_path / "out" / f"{name}.md").read_text()
    for arm in study.arms:
        assert f"| {arm.title} |" in text
    for reported in REPORTED[name]:
        assert reported.value in text
    for finding in study.findings:
        assert finding.words in text
    for suite in study.suites:
        assert f"| {suite} |" in text
    for fact in ("machine", "wall-clock time", "seeds", f"study {name} --scale smoke"):
        assert fact in text
    drawn = ElementTree.parse(tmp_path / "docs" / f"{name}.svg").getroot()
    words = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert all(arm.title in words for arm in study.arms)
    assert any(element.get("points") for element in drawn.iter("{http://www.w3.org/2000/svg}polyline"))


def test_finished_cells_are_skipped_and_only_missing_ones_are_run(tmp_path, pocket_folder, capsys):
    assert smoke("table-4", tmp_path, pocket_folder) == 0
    sizes = {path: path.stat().st_size for path in tmp_path.rglob(JOURNAL_FILE)}
    assert len(sizes) == 2
    assert smoke("table-4", tmp_path, pocket_folder, "--seeds", "2") == 0
    assert "2 of 4 cells are already complete" in capsys.readouterr().out
    assert {path: path.stat().st_size for path in sizes} == sizes
    assert "| with a thought |" in (tmp_path / "table-4.md").read_text()
    assert "| seeds | 0 to 1 |" in (tmp_path / "table-4.md").read_text()


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
    outcome = results.read(cell)
    assert sorted(outcome.curves["success/rate"]) == [1, 2, 3]
    assert [evaluation.iteration for evaluation in outcome.evaluations["Bandit"]] == [0, 3]
    starts = [event for event in reader.read(journal) if isinstance(event, events.RunStarted)]
    assert len(starts) == 2
    assert outcome.megabytes > 50
    assert outcome.seconds > 0


def test_a_cell_with_other_settings_is_not_continued(tmp_path, pocket_folder, capsys):
    assert smoke("table-4", tmp_path, pocket_folder) == 0
    assert smoke("table-4", tmp_path, pocket_folder, "--set", "iterations=1") == 1
    assert "holds a cell with other settings: choose another --out" in capsys.readouterr().err


def test_a_cell_that_fails_is_named_with_its_reason(tmp_path):
    cells = grid.cells(find("table-4"), "smoke", 1, tmp_path, ("policy.model=/no/such/folder",))
    with pytest.raises(
        grid.CellFailedError, match=r"bandit/think/seed-0 failed: error: policy.model: there is no folder"
    ):
        grid.run(cells, 1, never, lambda line: None, grid.run_in_subprocess)
    assert not (tmp_path / "bandit" / "no-think").exists()


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
    assert "| figure-9 | StarPO against StarPO-S | 6, under a minute | 18, about " in listing
    assert all(f"| {name} |" in listing for name in STUDIES)


# -- the catalogue --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("scale", ["smoke", "pocket", "paper"])
def test_cells_of_a_study_differ_only_in_the_studied_settings(name, scale, tmp_path):
    study = STUDIES[name]
    cells = grid.cells(study, scale, 2, tmp_path)
    assert len({cell.folder for cell in cells}) == len(cells) == 2 * len(study.environments) * len(study.arms)
    assert len({cell.config.digest() for cell in cells}) == len(cells)
    shared = {(cell.config.iterations, cell.config.evaluation.prompts) for cell in cells}
    assert len(shared) == 1
    if scale != "smoke" and name != "table-2":
        assert len({(c.config.rollout.groups, c.config.rollout.group_size) for c in cells}) == 1


def test_findings_and_figures_of_the_paper_name_existing_arms():
    assert set(REPORTED) == set(STUDIES)
    for name, study in STUDIES.items():
        arms = {arm.name for arm in study.arms}
        assert {finding.arm for finding in study.findings} | {f.other for f in study.findings if f.other} <= arms
        assert {finding.suite for finding in study.findings} <= {"", *study.suites}
        assert {reported.arm for reported in REPORTED[name]} <= {"", *arms}
        assert {reported.environment for reported in REPORTED[name]} <= {"", *study.environments}


def test_the_pocket_study_of_figure_9_is_estimated_below_ninety_minutes_on_two_cores(tmp_path):
    cells = grid.cells(find("figure-9"), "pocket", 3, tmp_path)
    assert len(cells) == 18
    assert {cell.config.policy.threads for cell in cells} == {1}
    assert {cell.config.optimizer.policy_lr for cell in cells} == {2e-4}
    assert sum(command.estimate(cell.config, "pocket") for cell in cells) / 2 < 90 * 60


def test_lora_uses_ten_times_the_learning_rate():
    study = find("appendix-d")
    full, lora = (configuration(study, "paper", "sokoban", arm, 0) for arm in study.arms)
    assert (lora.lora.rank, lora.lora.alpha) == (64, 64)
    assert lora.optimizer.policy_lr == pytest.approx(10 * full.optimizer.policy_lr)
    assert lora.optimizer.critic_lr == pytest.approx(10 * full.optimizer.critic_lr)


# -- results ---------------------------------------------------------------------------------------------------------


def outcome(arm, seed, success, curve=(), **more):
    evaluation = EvaluationResult(10, 100, success, 0, 1)
    curves = {"success/rate": dict(enumerate(curve, start=1))}
    return Outcome(
        "sokoban", arm, seed, len(curve), curves | more.pop("curves", {}), {"Sokoban": [evaluation]}, "Sokoban", **more
    )


def judged(claim, *outcomes, **more):
    study = replace(
        find("figure-9"), environments=("sokoban",), findings=(Finding("so it is", claim, "a", "b", **more),)
    )
    (verdict,) = verdicts(study, outcomes)
    return verdict.word


def test_a_difference_counts_only_beyond_two_standard_errors():
    clear = [outcome("a", n, 0.8 + n / 100) for n in range(3)], [outcome("b", n, 0.4 + n / 100) for n in range(3)]
    assert judged("higher", *clear[0], *clear[1]) == "yes"
    assert judged("not_lower", *clear[0], *clear[1]) == "yes"
    near = [outcome("a", 0, 0.55), outcome("b", 0, 0.5)]
    assert judged("higher", *near) == "no difference seen"
    assert judged("not_lower", *near) == "yes, within the error"
    swapped = [replace(o, arm={"a": "b", "b": "a"}[o.arm]) for o in (*clear[0], *clear[1])]
    assert judged("higher", *swapped) == "the opposite"
    assert judged("not_lower", *swapped) == "no"
    wide = [outcome("a", n, rate) for n, rate in enumerate((0.9, 0.3))], [outcome("b", n, 0.5) for n in range(2)]
    assert judged("higher", *wide[0], *wide[1]) == "no difference seen"
    assert judged("higher") == "inconclusive"


def test_without_any_collapse_the_verdict_is_inconclusive():
    steady, fallen = [0.5] * 30, [0.5] * 10 + [0.0] * 20
    assert judged("collapses_later", outcome("a", 0, 0.5, steady), outcome("b", 0, 0.5, steady)) == "inconclusive"
    assert judged("collapses_later", outcome("a", 0, 0.5, steady), outcome("b", 0, 0.5, fallen)) == "yes"
    assert judged("collapses_later", outcome("a", 0, 0.5, fallen), outcome("b", 0, 0.5, steady)) == "the opposite"


def test_costs_and_lengths_are_compared():
    def taking(arm, seconds, megabytes, length):
        curves = {"time/update": {1: seconds}, "length/think": dict(enumerate(length, start=1))}
        return outcome(arm, 0, 0.5, curves=curves, megabytes=megabytes)

    pair = [taking("a", 10.0, 50.0, [9, 9, 4, 3]), taking("b", 20.0, 100.0, [5, 5, 5, 5])]
    assert judged("less_update_time", *pair) == "yes"
    assert judged("less_memory", *pair) == "yes"
    assert judged("falls", *pair, metric="length/think") == "yes"
    assert judged("less_memory", outcome("a", 0, 0.5), outcome("b", 0, 0.5)) == "inconclusive"


@pytest.mark.parametrize(
    "success, at",
    [
        ([0.5] * 20, None),
        ([0.0] * 20, None),
        ([0.05] * 10 + [0.0] * 10, None),
        ([0.6] * 10 + [0.0] * 10, 13),
        ([0.6] * 10 + [0.0] * 10 + [0.6] * 10, None),
        ([0.6] * 10 + [0.0] * 3, None),
        ([], None),
    ],
)
def test_a_collapse_is_a_lasting_fall_below_half_of_the_best(success, at):
    assert collapse(success) == at


@given(st.lists(st.floats(0, 1), max_size=60), st.floats(0.5, 1))
def test_a_collapse_lies_within_the_run_and_only_after_a_success(success, factor):
    at = collapse(success)
    assert at is None or (5 < at + 4 <= len(success) and max(success) >= 0.1)


def test_the_last_attempt_at_an_iteration_counts(tmp_path):
    cell = replace(grid.cells(find("table-4"), "smoke", 1, tmp_path)[0], folder=tmp_path / "cell")
    journal = Journal(cell.folder)

    def start(attempt, done, evaluated):
        return events.RunStarted(
            attempt=attempt,
            from_iteration=done,
            evaluated_iteration=evaluated,
            iterations=3,
            title="",
            config={},
            device="",
            parameters=1,
            versions={},
        )

    def evaluation(iteration, success):
        return events.Evaluation(
            iteration=iteration,
            suite="Bandit",
            prompts=2,
            success=success,
            success_low=0,
            success_high=1,
            mean_reward=0,
            mean_turns=1,
            mean_actions=1,
        )

    def metrics(iteration, value):
        return events.Metrics(iteration=iteration, tokens=1, seconds=1, values={"success/rate": value})

    alarm = events.Alarm(iteration=2, state="trapped", message="gone")
    journal.write(start(1, 0, -1), evaluation(0, 0.5), metrics(1, 0.1), metrics(2, 0.2), evaluation(2, 0.9), alarm)
    journal.write(start(2, 1, 0), metrics(2, 0.3), metrics(3, 0.4), evaluation(3, 0.75))
    read = results.read(cell)
    assert read.curves["success/rate"] == {1: 0.1, 2: 0.3, 3: 0.4}
    assert [(result.iteration, result.success) for result in read.evaluations["Bandit"]] == [(0, 0.5), (3, 0.75)]
    assert read.trapped is None
    assert read.final().success == 0.75


# -- plots and pages ------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_axes_enclose_the_data(values):
    ticks = _ticks(values)
    slack = 1e-6 * max(1.0, abs(ticks[0]), abs(ticks[-1]))
    assert ticks[0] <= min(values) + slack
    assert max(values) - slack <= ticks[-1]
    assert 2 <= len(ticks) <= 7


def test_a_picture_is_valid_xml_for_any_text():
    line = PlotSeries("a < b & c", [(1, 2.0)], intervals=[(1, 1.0, 3.0)])
    drawn = picture("<title> & more", [Panel("p<q", [line]), Panel("none", [])], [("a < b & c", 0)])
    words = [element.text for element in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert {"<title> & more", "p<q", "a < b & c"} <= set(words)


def test_the_page_is_made_from_the_records(tmp_path, pocket_folder):
    assert smoke("figure-11", tmp_path, pocket_folder) == 0
    record = json.loads((tmp_path / command.RECORD).read_text())
    assert f"{os.cpu_count()} cores" in record["machine"]
    text = (tmp_path / "figure-11.md").read_text()
    assert record["machine"] in text
    assert text.count("\n| ") == text.count(" |\n")
    assert page.table(("a", "b"), [("1|2", "3")]) == "| a | b |\n| --- | --- |\n| 1\\|2 | 3 |"
