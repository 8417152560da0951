"""What the document of a study states about its arms, verdicts, settings and runs, and how it reads as Markdown."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.config.files import load_preset
from trainer.studies.catalogue import STUDIES, find
from trainer.studies.cell_settings import configuration
from trainer.studies.document import Column, Document, Piece, StudySection, cell, markdown
from trainer.studies.method import ArmConfig
from trainer.studies.outcomes import EvaluationResult, Outcome
from trainer.studies.results import RunRow, StudyResults
from trainer.studies.study import Arm
from trainer.studies.study_document import study_document


def texts(document, name):
    """The rows of a section: title of a column → text of its cell."""
    section = next(section for section in document.sections if section.name == name)
    return [{column.title: " ".join(piece.text for piece in cell) for column, cell in line} for line in section.lines]


def document_of(study, rows, configs=(), **more):
    return study_document("A study", StudyResults(study, rows, 3, **more), configs)


def outcome(arm, seed=0, success=None, environment="sokoban", **more):
    evaluations = {} if success is None else {"Sokoban": [EvaluationResult(40, 100, success, 0, 1)]}
    return Outcome(environment, arm, seed, 40, evaluations=evaluations, suite="Sokoban", **more)


def test_the_memory_of_the_table_is_that_of_the_finding():
    """MiB of the learner as the mean over seeds: of the GPU, where the host's would be 900."""
    study = replace(find("appendix-d"), environments=("sokoban",))
    used, own = "system/gpu_memory_bytes", "system/gpu_reserved_bytes"

    def peak(**curves):
        outcomes = [
            outcome("full", seed, megabytes=900.0, curves={used: {1: 2e10}} | curves.get(f"seed_{seed}", {}))
            for seed in range(3)
        ]
        return texts(document_of(study, [RunRow(one) for one in outcomes]), "arms")[0].get("Peak MiB")

    reserved = {f"seed_{seed}": {own: {1: mib * 2**19, 2: mib * 2**20}} for seed, mib in enumerate((100, 200, 600))}
    assert peak(**reserved) == "300"
    assert peak(**{f"seed_{seed}": {own: {1: 0}} for seed in range(3)}) == "900", "a GPU that the run did not use"
    assert peak() is None, "other runs may have used the same GPU, and no arm has a value for the column"


def test_a_rewind_counts_for_what_was_detected_and_spent():
    curves = {"time/update": {1: 2.0, 2: 3.0}, "update/steps": {1: 4.0, 2: 4.0}}
    taken = {"time/update": 4.0, "update/steps": 8.0}
    one = outcome("think", alarms=[(3, "trapped")], rewinds=1, curves=curves, taken_back=taken)
    (row, _) = texts(document_of(replace(find("table-4"), environments=("sokoban",)), [RunRow(one)]), "arms")
    assert (row["Detected"], row["Steps"], row["Updates"]) == ("1 of 1: 3 (1 rewind)", "16", "9 s")


def test_incomplete_runs_are_marked_and_have_no_part_in_verdicts():
    study = replace(find("figure-9"), environments=("sokoban",))
    rows = [RunRow(outcome(arm, n, s + n / 50)) for arm, s in (("starpo", 0.4), ("starpo_s", 0.8)) for n in range(3)]
    rows[-1] = replace(rows[-1], complete=False, state="Running", link="/runs/last")
    rows.append(RunRow(Outcome("sokoban", "starpo_s", 3), complete=False, state="Queued"))
    document = study_document("A study", StudyResults(study, rows, 4), [])
    starpo_s = texts(document, "arms")[1]
    assert (starpo_s["By seed"], starpo_s["Complete"], starpo_s["After"]) == (
        "80.0 82.0 84.0 queued",
        "2 of 4",
        "82.0 ± 2.0%",
    )
    assert "80.0 82.0 *[84.0](/runs/last)* *queued*" in markdown(document)
    verdict = texts(document, "verdicts")[0]
    assert (verdict["Result"], verdict["Complete"]) == ("inconclusive", "2 of 4 seeds")
    assert "provisional until" in markdown(document)


def test_verdicts_are_printed_with_intervals_and_p_values():
    study = replace(find("figure-9"), environments=("sokoban",))
    rows = [RunRow(outcome(arm, n, s + n / 50)) for arm, s in (("starpo", 0.4), ("starpo_s", 0.8)) for n in range(3)]
    document = document_of(study, rows)
    verdict = texts(document, "verdicts")[0]
    claim = "“StarPO-S ends with more successes than StarPO”"
    assert document.outcome.startswith(
        f"Settled: {claim}: yes (Sokoban). Not tested by these runs: “StarPO-S collapses"
    )
    assert markdown(document).index(document.outcome) < markdown(document).index(study.question)
    (differs,) = texts(document, "differences")
    assert differs["Ends higher"] == "100% (100% to 100%)"
    assert verdict["Figures"].startswith("+40.0 points (")
    assert (verdict["Result"], verdict["p"]) == ("yes", "< 0.001")
    assert "provisional" not in markdown(document)


def test_trials_are_listed_from_the_best_on_whatever_better_is():
    arms = tuple(Arm(name, name, "starpo") for name in ("a", "b", "c"))
    study = replace(find("figure-9"), name="own", environments=("sokoban",), arms=arms, findings=())
    for metric, order in (("success/rate", ["c", "a", "b"]), ("system/memory_bytes", ["a", "c", "b"])):
        curves = {"a": {metric: {1: 0.1}}, "c": {metric: {1: 0.9}}, "b": {}}
        rows = [RunRow(outcome(name, curves=own)) for name, own in curves.items()]
        document = document_of(study, rows, metric=metric, ranked=True)
        assert [row["Trial"] for row in texts(document, "arms")] == order


def test_many_arms_are_the_rows_of_the_table_of_settings():
    base = load_preset("bandit-starpo_s-pocket")

    def settings(count):
        configs = [
            ArmConfig("bandit", f"arm {n}", f"arm-{n}", base.model_copy(update={"iterations": n + 1}))
            for n in range(count)
        ]
        return texts(document_of(find("figure-9"), [], configs), "settings")

    assert settings(3) == [{"Setting": "", "arm 0": "1", "arm 1": "2", "arm 2": "3"}]
    assert settings(9)[8] == {"Arm": "arm 8", "": "9"}


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_rows_for_all_of_its_parts_before_any_run_began(name):
    study = find(name)
    configs = [
        ArmConfig(environment, arm.title, arm.name, configuration(study, "pocket", environment, arm, 0))
        for environment in study.environments
        for arm in study.arms
    ]
    document = document_of(study, [], configs, scale="pocket")
    assert len(texts(document, "arms")) == len(study.arms) * len(study.environments)
    assert len(texts(document, "verdicts")) == sum(
        len(one.environments or study.environments) for one in study.findings
    )
    text = markdown(document, "curves.svg")
    assert "![Curves of the arms](curves.svg)" in text
    assert all(finding.text in text for finding in study.findings)


@given(st.text(max_size=30), st.text(max_size=30))
def test_texts_of_users_are_no_markup_and_leave_the_table_whole(title, text):
    columns = [Column("Run", "row header"), Column("State")]
    rows = [[[Piece(title, link="/runs/1")], cell(text)]]
    written = markdown(Document(title, [], "", [StudySection("runs", "Runs", columns, rows)]))
    lines = written.rstrip("\n").split("\n")
    assert len([line for line in lines if line.startswith("| ")]) == 3
    bare = lines[-1].replace("\\\\", "").replace("\\|", "")
    assert bare.count("|") == 3
    assert not re.search(r"(?<!\\)<[A-Za-z/!?]", bare)
