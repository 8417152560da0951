"""GPU benchmark: every part at a tiny shape on a CPU, failures as rows, peak FLOP/s, advice."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.gpu import __main__ as command
from bench.gpu import options, parts, profile_part, rollout_part, update_part
from bench.gpu.options import Settings
from bench.gpu.parts import PARTS, Part
from bench.gpu.peaks import find_peak
from bench.gpu.record import Recorder, interleaved, markdown, read_rows, speedup

ROOT = Path(__file__).resolve().parents[2]
LOADED = """
import sys
import bench.gpu.__main__
print(sorted({"django", "celery", "channels", "pyarrow", "bm25s", "psycopg", "redis"} & set(sys.modules)))
"""
COMPILED = {update_part.COMPILED_UNSHARED, update_part.COMPILED}
"""Variants that need minutes of compilation on a CPU; tests/trainer/policy/test_compiled_layers.py has their parts."""


def settings(rows: Path, *names: str, **changed: Any) -> Settings:
    known: dict[str, Any] = {"device": "cpu", "shape": "tiny", "dtype": "float32", "variants": (), "rounds": 1}
    return Settings(**(known | {"seconds": 600.0, "peak": 1e12, "rows": rows, "parts": names} | changed))


def rows_of(part: str, tmp_path: Path, **changed: Any) -> dict[str, dict[str, Any]]:
    """Figures by name, of a part run to its end; its failures fail the test."""
    path = tmp_path / "rows.jsonl"
    command.run_here(part, settings(path, part, **changed), 600)
    rows = read_rows(path)
    assert [row["error"] for row in rows if "error" in row] == []
    assert {row["part"] for row in rows} == {part}
    return {row["what"]: row["figures"] for row in rows}


@pytest.mark.nightly
def test_it_runs_without_the_packages_of_the_site() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.nightly
def test_rollouts_of_all_samplers_are_compared(tmp_path: Path) -> None:
    rows = rows_of("rollout", tmp_path)
    ours = {rollout_part.OURS, rollout_part.EAGER}
    assert ours | {rollout_part.GENERATE, rollout_part.VLLM} == rows.keys()
    assert rows[rollout_part.GENERATE]["× generate"] == 1
    assert all(rows[name]["tokens/s"] > 0 for name in ours)


def test_updates_in_all_forms_are_compared(tmp_path: Path) -> None:
    names = tuple(name for name in update_part.VARIANTS if name not in COMPILED)
    rows = rows_of("update", tmp_path, variants=names)
    assert rows.keys() == set(names)
    assert rows[update_part.DEFAULT]["× default"] == 1
    assert all(row["MFU"].endswith("%") for row in rows.values())


def test_a_profile_lists_the_longest_operations(tmp_path: Path) -> None:
    rows = rows_of("profile", tmp_path, variants=(update_part.DEFAULT,))
    assert rows[update_part.DEFAULT]["seconds"] > 0
    assert rows["rollout"]["GPU busy"] == "0%"  # there is none
    assert sum(name.startswith("default settings, host: ") for name in rows) == profile_part.LONGEST


def test_a_variant_changes_the_update_only_while_it_runs(tmp_path: Path) -> None:
    updates = update_part.Updates(settings(tmp_path / "rows"), 768)
    before = updates.learner.planner, [layer.forward for layer in updates.layers]
    shared = updates.computed_tokens()
    for change in (updates.unshared(), updates.recomputed()):
        with change():
            now = updates.learner.planner, [layer.forward for layer in updates.layers]
            assert now != before
        after = updates.learner.planner, [layer.forward for layer in updates.layers]
        assert after == before
    with updates.unshared()():
        assert updates.computed_tokens() == 768 > shared


@pytest.mark.nightly
def test_agreement_of_devices_and_of_sampler_and_trainer(tmp_path: Path) -> None:
    rows = rows_of("agreement", tmp_path)
    exact = [row for name, row in rows.items() if name.startswith("float32")]
    assert len(exact) == 3
    for row in exact:
        assert row["log-probabilities: largest difference"] < 1e-3
        assert row["step: relative difference"] < 1e-3
    (tmp_path / "more").mkdir()
    found = rows_of("mismatch", tmp_path / "more")
    assert found.keys() == {"ragged", "static"}
    assert all(row["k3"] < 1e-8 for row in found.values())


def test_whole_iterations_and_weight_transfers(tmp_path: Path) -> None:
    rows = rows_of("iteration", tmp_path)
    (figures,) = [row for name, row in rows.items() if name.startswith("an iteration")]
    assert figures["time/rollout"] > 0
    assert figures["time/update"] > 0
    assert 0 <= figures["k3"] < 1e-8, "an update was made"
    (tmp_path / "more").mkdir()
    assert rows_of("push", tmp_path / "more")["copy to the host"]["ms"] > 0


def test_a_part_that_fails_is_a_row_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(settings: Settings, recorder: Recorder) -> None:
        raise ZeroDivisionError("by | zero")

    def fine(settings: Settings, recorder: Recorder) -> None:
        recorder.add("one", seconds=0.12345, result=None)

    monkeypatch.setitem(PARTS, "agreement", Part(broken, 1))
    monkeypatch.setitem(PARTS, "push", Part(fine, 1))
    rows, table = tmp_path / "rows.jsonl", tmp_path / "table.md"
    words = ["--device", "cpu", "--shape", "tiny", "--parts", "agreement,push", "--rows", str(rows)]
    monkeypatch.setattr(sys, "argv", ["bench.gpu", *words, "--table", str(table)])
    assert command.main() == 0
    failed, measured = read_rows(rows)
    assert "Traceback" in failed["error"]
    assert measured == {"part": "push", "what": "one", "figures": {"seconds": 0.12345, "result": None}}
    assert "| agreement | failed: ZeroDivisionError: by / zero |" in table.read_text()
    assert "| one | 0.1235 |  |" in capsys.readouterr().out


def test_a_part_in_its_own_process_is_recorded_however_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    commands: list[list[str]] = []

    def run(argv: list[str], timeout: float) -> subprocess.CompletedProcess[bytes]:
        commands.append(argv)
        code = "import time; time.sleep(60)" if len(commands) == 1 else f"raise SystemExit({len(commands) - 2})"
        return whole([sys.executable, "-c", code], timeout=timeout)

    whole = subprocess.run
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(command, "GRACE", 0.5)
    for _ in range(2):
        command.run_apart("push", settings(path, "push"), 1.0)
    monkeypatch.setattr(command, "GRACE", 60.0)
    command.run_apart("push", settings(path, "push"), 1.0)
    errors = [row["error"] for row in read_rows(path)]
    assert errors == ["ended after 2 seconds", "it measured nothing", "its process ended with 1: see its output"]
    made = options.parser(list(PARTS), None)
    again = command.read_settings(made.parse_args(commands[0][3:]))
    assert commands[0][:5] == [sys.executable, "-m", "bench.gpu", "--part", "push"]
    assert (again.shape, again.rows, again.rounds, again.seconds) == ("tiny", path, 1, 1.0)


def test_a_contender_that_fails_leaves_the_others(tmp_path: Path) -> None:
    calls: list[str] = []

    def fails() -> None:
        raise RuntimeError("no kernel")

    recorder = Recorder("update", tmp_path / "rows", time.monotonic() + 60)
    took = interleaved({"a": lambda: calls.append("a"), "b": fails}, 3, "cpu", recorder)
    assert calls == ["a"] * 4
    assert {name: len(clocks) for name, clocks in took.items()} == {"a": 3}
    assert "RuntimeError: no kernel" in read_rows(tmp_path / "rows")[0]["error"]


def test_rounds_end_with_the_time_of_their_part_but_not_before_one_was_counted(tmp_path: Path) -> None:
    late = Recorder("update", tmp_path / "rows", time.monotonic() - 1)
    assert len(interleaved({"a": lambda: None}, 5, "cpu", late)["a"]) == 1


def test_ratios_are_those_within_a_round() -> None:
    base, twice = [{"seconds": 2.0}, {"seconds": 8.0}], [{"seconds": 1.0}, {"seconds": 4.0}]
    assert speedup(twice, base) == 2
    assert speedup(base, base) == 1


def test_parts_without_time_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tmp_path / "rows.jsonl"
    words = ["--device", "cpu", "--shape", "tiny", "--seconds", "1", "--rows", str(rows)]
    monkeypatch.setattr(sys, "argv", ["bench.gpu", *words])
    assert command.main() == 0
    assert [row["part"] for row in read_rows(rows)] == list(PARTS)
    assert all("no time was left" in row["figures"]["result"] for row in read_rows(rows))


def test_the_larger_shape_is_that_of_the_next_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    monkeypatch.setattr(parts, "rollout", lambda settings, recorder, rounds: shapes.append(settings.shape))
    monkeypatch.setattr(parts, "update", lambda settings, recorder, names: shapes.append(settings.shape))
    recorder = Recorder("large", tmp_path / "rows", 0)
    parts.large(settings(tmp_path / "rows", shape="qwen2.5-0.5b"), recorder)
    parts.large(settings(tmp_path / "rows"), recorder)
    assert shapes == ["qwen2.5-1.5b"] * 2 + ["tiny"] * 2


def test_large_numbers_and_missing_ones_are_readable() -> None:
    rows = [
        {"part": "update", "what": "x", "figures": {"tokens/s": 123456.7, "MFU": "41.2%"}},
        {"part": "update", "what": "y", "figures": {"tokens/s": 1.5, "MFU": None}},
    ]
    assert "| x | 123,457 | 41.2% |" in markdown(rows)
    assert "| y | 1.5 |  |" in markdown(rows)


@pytest.mark.parametrize(
    "name, tera",
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA L4", 121),
        ("NVIDIA L40S", 362),
        ("NVIDIA A10G", None),
        ("NVIDIA GeForce RTX 4090", 165),
        ("CPU", None),
    ],
)
def test_peak_flops_are_looked_up_by_full_device_name(name: str, tera: float | None) -> None:
    assert find_peak(name) == (None if tera is None else tera * 1e12)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ([], "--device cpu"),
        (["--device", "cpu", "--parts", "rollout,nothing"], "there is no part nothing: choose of agreement"),
        (["--device", "cpu", "--seconds", "0"], "--seconds above 0"),
    ],
)
def test_what_cannot_be_measured_is_answered_with_advice(
    words: list[str], advice: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.gpu", *words])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        command.main()
    assert advice in capsys.readouterr().err


def test_missing_packages_are_named_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.gpu", "--device", "cpu"])
    monkeypatch.setattr(options, "missing", lambda: ["peft"])
    with pytest.raises(SystemExit):
        command.main()
    assert "pip install peft" in capsys.readouterr().err
