"""Lines of a chart: mean over seeds, several metrics on their own axes, limits; saved charts; units."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.webapp.javascript import evaluate

CATALOG = {
    "reward/mean": {"title": "Mean reward", "unit": "", "partners": {}},
    "echo_trap/reward": {"title": "Reward drop", "unit": "", "partners": {"limit": "echo_trap/reward_limit"}},
    "system/memory_bytes": {"title": "Memory", "unit": "bytes", "partners": {}},
    "eval/Lake/success": {"title": "Success", "unit": "share", "partners": {"best": "best", "random": "random"}},
}


def source(slug: str, seeds: str = "") -> dict[str, Any]:
    return {"slug": slug, "letter": slug, "label": slug, "color": f"--{slug}", "shown": True, "seeds": seeds or slug}


def lines(plan: dict[str, Any], curves: dict[str, Any], sources: list[dict[str, Any]], average: bool = False) -> Any:
    data = {"plan": plan, "curves": curves, "sources": sources, "catalog": CATALOG, "average": average}
    return evaluate(
        "curves/chart_lines.js",
        "linesOf(data.plan, data.curves, data.sources, data.catalog, {average: data.average, smoothing: 0})",
        data,
    )


def test_the_mean_over_seeds_interpolates_and_has_the_sample_deviation() -> None:
    """Points are (iteration, place, value). The second run lacks iteration 2 and ends after 3."""
    one, other = [[1, 10, 1], [2, 20, 2], [3, 30, 3], [4, 40, 9]], [[1, 12, 3], [3, 32, 7]]
    found = evaluate("curves/seed_means.js", "meanOf(data)", [one, other])
    assert found["points"] == [[1, 11, 2], [2, 21, 3.5], [3, 31, 5], [4, 40, 9]]
    assert [round(value, 4) for value in found["deviations"]] == [1.4142, 2.1213, 2.8284, 0]
    assert evaluate("curves/seed_means.js", "meanOf(data)", []) == {"points": [], "deviations": []}


def test_a_long_warm_up_takes_a_quarter_of_the_axis() -> None:
    ends = [[-150, 20], [-16, 100], [-150, 1], [-150, -20], [0, 20]]
    factors = evaluate("curves/iteration_axis.js", "data.map(([low, high]) => compression(low, high))", ends)
    parts = [-low * factor / (high - low * factor) for (low, high), factor in zip(ends, factors, strict=True)]
    assert parts[:2] == [pytest.approx(0.25), pytest.approx(16 / 116)]
    assert 0.25 < parts[2] < 1, "the first iterations do not take three quarters at once"
    assert factors[1] == factors[3] == factors[4] == 1
    ticks = evaluate("curves/iteration_axis.js", "data.map(([low, high]) => labelled(low, high, 6))", ends)
    assert ticks[0] == [-150, 0, 5, 10, 15, 20]
    assert ticks[1] is None


def test_runs_that_differ_in_their_seed_become_one_line_with_a_band() -> None:
    curves = {slug: {"reward/mean": [[1, 1, value]]} for slug, value in (("a", 1), ("b", 3), ("c", 5))}
    plan = {"names": ["reward/mean"], "own": False}
    runs = [source("a", "x"), source("b", "x"), source("c")]
    assert [line["label"] for line in lines(plan, curves, runs)] == ["a", "b", "c"]
    mean, single = lines(plan, curves, runs, average=True)
    assert (mean["label"], mean["points"]) == ("a, b: mean ± std", [[1, 1, 2]])
    assert [round(end, 3) for end in mean["spread"][0]] == [1, 0.586, 3.414]
    assert single["label"] == "c"
    assert "spread" not in single


def test_several_metrics_of_a_run_differ_in_colour_and_may_have_their_own_axes() -> None:
    curves = {"a": {"reward/mean": [[1, 1, 1]], "system/memory_bytes": [[1, 1, 2e9]]}}
    plan = {"names": ["reward/mean", "system/memory_bytes"], "own": True}
    first, second = lines(plan, curves, [source("a")])
    assert (first["color"], first.get("scale")) == ("--run-1", None)
    assert (second["color"], second["scale"], second["unit"]) == ("--run-2", "y1", "bytes")
    shared = lines(plan | {"own": False}, curves, [source("a")])
    assert [line.get("scale") for line in shared] == [None, None]


def test_success_is_drawn_between_the_best_and_random_play() -> None:
    curves = {"a": {"eval/Lake/success": [[0, 0, 0.3]], "best": [[0, 0, 0.5]], "random": [[0, 0, 0.2]]}}
    plan = {"names": ["eval/Lake/success"], "own": False}
    success, best, random = lines(plan, curves, [source("a")])
    assert success["points"] == [[0, 0, 0.3]]
    assert (best["label"], best["points"], best["quiet"]) == ("Best play", [[0, 0, 0.5]], True)
    assert (random["label"], random["points"]) == ("Random play", [[0, 0, 0.2]])
    alone = lines(plan, {"a": {"eval/Lake/success": [[0, 0, 0.3]]}}, [source("a")])
    assert [line["label"] for line in alone] == ["Success"], "runs of earlier versions have no such metrics"


def test_a_signal_of_the_echo_trap_is_drawn_with_its_limit_and_other_metrics_without() -> None:
    points = {"reward/mean": [[1, 1, 1]], "echo_trap/reward": [[1, 1, 0.5]], "echo_trap/reward_limit": [[1, 1, 2]]}
    plans = [{"names": [name], "own": False} for name in ("echo_trap/reward", "reward/mean")]
    found = [[line["label"] for line in lines(plan, {"a": points}, [source("a")])] for plan in plans]
    assert found == [["Reward drop", "Limit"], ["Mean reward"]]
    names = [evaluate("curves/chart_lines.js", "namesOf(data[0], data[1])", [plan, CATALOG]) for plan in plans]
    assert names == [["echo_trap/reward", "echo_trap/reward_limit"], ["reward/mean"]]


def test_saved_charts_survive_what_was_not_written_by_this_page() -> None:
    parse = "parse(data)"
    assert evaluate("curves/saved_charts.js", parse, "{broken") == {"pins": [], "limits": {}}
    assert evaluate("curves/saved_charts.js", parse, json.dumps({"pins": 4, "limits": [1]}))["pins"] == []
    stored = {
        "pins": [{"names": ["a", "b"], "own": True}, {"names": []}, {"names": [3]}],
        "limits": {"a": {"low": "x"}},
    }
    assert evaluate("curves/saved_charts.js", parse, json.dumps(stored)) == {
        "pins": [{"names": ["a", "b"], "own": True}],
        "limits": {"a": {"low": None, "high": None}},
    }


def test_a_pin_is_toggled_by_its_metrics() -> None:
    pin = {"names": ["a"], "own": False}
    once = evaluate("curves/saved_charts.js", "toggled({pins: [], limits: {}}, data)", pin)
    assert once["pins"] == [pin]
    assert evaluate("curves/saved_charts.js", "toggled(data[0], data[1])", [once, pin])["pins"] == []


def test_ticks_of_an_axis_have_the_same_number_of_decimals() -> None:
    def ticks(unit: str, *values: float | None) -> Any:
        return evaluate("curves/units.js", "tickTexts(data[0], data[1])", [unit, values])

    assert ticks("", -1.5, -1, 0, 0.5) == ["−1.5", "−1.0", "0.0", "0.5"]
    assert ticks("", 1, None, 2) == ["1", "", "2"]
    assert ticks("share", 0.25, 0.5) == ["25%", "50%"]
    assert ticks("share", 0.95, 0.955) == ["95.0%", "95.5%"]
    assert ticks("bytes", 2**30, 1.5 * 2**30) == ["1.0 GiB", "1.5 GiB"]
    assert ticks("bytes", 1.2e9, 1.21e9) == ["1.118 GiB", "1.127 GiB"]
    assert ticks("bytes", 0, 2**30) == ["0 GiB", "1 GiB"]
    assert ticks("", 0, 20000) == ["0", "20,000"]


def test_a_filter_finds_beginnings_of_words() -> None:
    found = "beginsWord(data[0], data[1])"
    module = "curves/controls/word_filter.js"
    assert evaluate(module, found, ["reasoning/retrieval_accuracy", "eval"]) is False
    assert evaluate(module, found, ["eval/sokoban/success", "eval"]) is True
    assert evaluate(module, found, ["policy/grad_norm gradient norm", "norm"]) is True


def test_points_are_saved_as_csv_with_their_intervals() -> None:
    drawn = [{"label": "=A", "points": [[1, 100, 0.5]], "intervals": [[100, 0.4, 0.6]]}]
    text = evaluate("curves/controls/csv.js", "csvOf(data, 'tokens')", drawn)
    assert text == 'line,iteration,tokens,value,low,high\n"\'=A",1,100,0.5,0.4,0.6\n'
    assert evaluate("curves/controls/csv.js", "csvOf(data, 'iteration')", drawn).startswith(
        "line,iteration,value,low,high\n"
    )
