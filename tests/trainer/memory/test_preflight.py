"""Preflight check: runs that do not fit are refused with advice, large rollouts are split into chunks."""

import re
import shutil
from functools import partial

import pytest
import torch

from tests.trainer import tiny
from tests.trainer.engines.scripted_sampler import ScriptedSampler
from trainer.cli.main import main
from trainer.config.files import load_preset, with_overrides
from trainer.config.run import RunConfig
from trainer.engines.sampler_factory import in_chunks
from trainer.journal.events import Notice, RunFinished, RunStarted
from trainer.journal.reader import read
from trainer.loops import run_factory
from trainer.memory import advice, available, estimate, preflight
from trainer.memory.estimate import GB
from trainer.memory.oom import OutOfMemoryError
from trainer.policy.shapes import ModelShape, named_shape

HALF_BILLION = named_shape("Qwen2.5-0.5B")
assert isinstance(HALF_BILLION, ModelShape)
NAIVE = ["policy.dtype=float32", "optimizer.gradient_checkpointing=false"]


def naive(*more):
    return with_overrides(load_preset("sokoban-starpo-paper"), [*NAIVE, *more])


def fit(config, gb, **more):
    return preflight.check_shape(config, HALF_BILLION, gpu=True, free=int(gb * GB), total=int(gb * GB), **more)


def test_a_run_that_does_not_fit_is_refused_with_its_largest_parts_and_possible_savings():
    with pytest.raises(OutOfMemoryError) as caught:
        fit(naive(), 24)
    message = str(caught.value)
    assert "24.0 GB that are free on the GPU" in message
    parts = message.split("Parts:")[1].split("Of the settings")[0]
    sizes = [float(text) for text in re.findall(r"(\d+\.\d) GB", parts)]
    assert sizes == sorted(sizes, reverse=True)
    assert re.search(r"activations of [\d,]+ tokens \d+\.\d GB", message)
    assert re.search(r"optimizer\.gradient_checkpointing=true −\d+\.\d GB", message)
    assert "policy.dtype=bfloat16 −" in message
    assert "memory.preflight=warn" in message


def test_every_promised_saving_holds():
    config = naive()
    before = estimate.estimate_memory(config, HALF_BILLION, gpu=True).peak
    found = advice.suggested_settings(config, HALF_BILLION, gpu=True)
    assert len(found) >= 5
    assert [one.saved for one in found] == sorted((one.saved for one in found), reverse=True)
    for one in found:
        after = estimate.estimate_memory(
            with_overrides(config, [f"{one.setting}={one.value}"]), HALF_BILLION, gpu=True
        ).peak
        assert before - after == one.saved > 0


def test_following_the_advice_ends_in_a_run_that_fits():
    config = naive("rollout.groups=64")
    for _ in range(6):
        try:
            fit(config, 24)
            break
        except OutOfMemoryError:
            first = advice.suggested_settings(config, HALF_BILLION, gpu=True, rows=1)[0]
            config = with_overrides(config, [f"{first.setting}={first.value}"])
    else:
        pytest.fail("six settings later it still does not fit")


def test_the_guard_can_be_reduced_to_a_warning_or_disabled():
    plan = fit(naive("memory.preflight=warn"), 24)
    assert plan.warning.startswith("The run does not fit")
    assert "optimizer.gradient_checkpointing=true" in plan.warning
    off = naive("memory.preflight=none")
    assert preflight.check(off, "pocket", torch.device("cpu")) == preflight.PreflightResult()


def test_a_run_that_barely_fits_gives_a_warning():
    config = with_overrides(load_preset("sokoban-starpo-paper"), ["evaluation.prompts=0", "rollout.groups=2"])
    peak = estimate.estimate_memory(config, HALF_BILLION, gpu=True).peak / GB
    assert "will take about" in fit(config, peak * 1.01).warning
    assert fit(config, peak * 1.3) == preflight.PreflightResult()


def test_rows_that_do_not_fit_together_are_played_in_chunks():
    config = load_preset("sokoban-starpo-paper")
    plan = fit(config, 24)
    assert 1 <= plan.rows < estimate.played_at_once(config)
    assert "played in chunks" in plan.warning
    total = 24 * GB
    assert (
        estimate.estimate_memory(config, HALF_BILLION, gpu=True, rows=plan.rows).at("play")
        <= estimate.MAX_SHARE * total
    )
    assert (
        estimate.estimate_memory(config, HALF_BILLION, gpu=True, rows=plan.rows + 1).at("play")
        > estimate.MAX_SHARE * total
    )
    assert fit(config, 80).rows is None


def test_only_the_in_process_engine_uses_chunks():
    sampler = ScriptedSampler([])
    assert in_chunks(sampler, 3, print) is sampler


def run_on(free, config, tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "_free", lambda device: (free, free))
    return partial(run_factory.run, config, tmp_path, tmp_path / "cache"), lambda: list(
        read(tmp_path / "journal.jsonl")
    )


def test_a_run_is_refused_with_a_reason_before_loading(pocket_folder, tmp_path, monkeypatch):
    run, events = run_on(20_000_000, tiny.config(pocket_folder), tmp_path, monkeypatch)
    monkeypatch.setattr("trainer.loops.stages.policy_setup.load", lambda *_: pytest.fail("it was loaded"))
    with pytest.raises(OutOfMemoryError):
        run()
    assert not any(isinstance(event, RunStarted) for event in events())
    end = events()[-1]
    assert isinstance(end, RunFinished)
    assert end.reason == "error"
    assert end.message.startswith("the run does not fit")


def test_a_chunked_run_equals_an_unchunked_one(pocket_folder, tmp_path, monkeypatch):
    def played(rows, folder):
        monkeypatch.setattr(preflight, "check", lambda *others: preflight.PreflightResult(rows))
        config = tiny.config(pocket_folder, iterations=1)
        run_factory.run(config, folder, tmp_path / "cache")
        turns = [event for event in read(folder / "journal.jsonl") if event.type == "turn"]
        return sorted((event.trajectory, event.turn, event.response) for event in turns)

    assert played(None, tmp_path / "together") == played(2, tmp_path / "waves")


def test_host_memory_honours_the_container_limit(tmp_path, monkeypatch):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       1000 kB\nMemFree: 100 kB\nMemAvailable:    800 kB\nHugePages_Total:   0\n")
    monkeypatch.setattr(available, "_MEMORY", meminfo)
    monkeypatch.setattr(available, "_CGROUP", tmp_path)
    assert available.available_memory() == (800 * 1024, 1000 * 1024)
    (tmp_path / "memory.max").write_text("512000\n")
    (tmp_path / "memory.current").write_text("412000\n")
    assert available.available_memory() == (100_000, 512_000)
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 50000\n")
    assert available.available_memory() == (150_000, 512_000)
    (tmp_path / "memory.max").write_text("max\n")
    assert available.available_memory() == (800 * 1024, 1000 * 1024)
    meminfo.write_text("nonsense")
    assert available.available_memory() is None


def test_host_memory_is_known_without_proc(tmp_path, monkeypatch):
    _, total = available.available_memory()
    monkeypatch.setattr(available, "_MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(available, "_CGROUP", tmp_path)
    free, elsewhere = available.available_memory()
    assert 0 < free <= elsewhere
    assert elsewhere >= total, "a container's limit is below the machine's memory"


def test_the_command_prints_parts_sums_and_savings(capsys):
    assert main(["estimate-memory", "--preset", "sokoban-starpo-paper", "--device-gb", "24"]) == 0
    output = capsys.readouterr().out
    assert "494,032,768 parameters, on a GPU" in output
    assert "| **together** |" in output
    assert "It fits 24.0 GB" in output
    assert "lora.rank=64 −" in output
    assert main(["estimate-memory", "--preset", "sokoban-starpo-paper", "--device-gb", "8"]) == 0
    assert "It does not fit 8.0 GB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--device-gb", "0"], "--device-gb must be above 0"),
        (["--processes", "0"], "--processes must be at least 1"),
        (["--set", "policy.model=someone/Else-13B"], "the dimensions of someone/Else-13B are unknown"),
    ],
)
def test_the_command_reports_invalid_input(capsys, monkeypatch, more, complaint):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert main(["estimate-memory", "--preset", "sokoban-pocket", *more]) == 2
    assert complaint in capsys.readouterr().err


def test_the_command_reads_the_sizes_of_any_hub_id(capsys, monkeypatch, tmp_path, pocket_folder):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    commit = "a" * 40
    files = tmp_path / "models--someone--Else-13B" / "snapshots" / commit
    files.mkdir(parents=True)
    (tmp_path / "models--someone--Else-13B" / "refs").mkdir()
    (tmp_path / "models--someone--Else-13B" / "refs" / "main").write_text(commit)
    shutil.copy(pocket_folder / "config.json", files)
    assert main(["estimate-memory", "--preset", "sokoban-pocket", "--set", "policy.model=someone/Else-13B"]) == 0
    assert capsys.readouterr().out.startswith("someone/Else-13B, ")


def test_for_an_unknown_model_the_guard_leaves_the_error_to_loading(tmp_path):
    assert preflight.check(RunConfig(), str(tmp_path / "none"), torch.device("cpu")) == preflight.PreflightResult()


@pytest.mark.parametrize("name", ["ModelThatIsNoPath", "/no/folder", "./none", "~/none", "a/b/c"])
def test_the_hub_is_not_queried_for_impossible_ids(monkeypatch, name):
    requested = []
    monkeypatch.setattr(preflight.AutoConfig, "from_pretrained", lambda *named, **more: requested.append(named))
    assert preflight.check(RunConfig(), name, torch.device("cpu")) == preflight.PreflightResult()
    assert requested == []


def test_warnings_are_written_to_the_journal(pocket_folder, tmp_path, monkeypatch):
    config = tiny.config(pocket_folder, iterations=1, memory={"preflight": "warn"})
    run, events = run_on(20_000_000, config, tmp_path, monkeypatch)
    run()
    assert any(isinstance(event, Notice) and "does not fit" in event.message for event in events())
