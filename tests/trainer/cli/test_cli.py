"""Command line: results, error messages and exit codes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.trainer import tiny
from trainer.cli import main
from trainer.cli.parser import parser
from trainer.config.files import load_preset, load_yaml, preset_names
from trainer.config.run import RunConfig
from trainer.journal import reader
from trainer.journal.protocol import DISK_FULL, JOURNAL_FILE
from trainer.loops.stages import imitation_stage

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _signals(monkeypatch):
    """Keep the signal handlers of the test process."""
    monkeypatch.setattr("signal.signal", lambda number, handler: None)


def train(out, *more, preset="sokoban-pocket"):
    return main.main(["train", "--preset", preset, "--out", str(out), *more])


def changes(folder, **sections):
    """--set arguments that shorten a preset to a run of a second with the model in this folder."""
    data = tiny.config(folder, iterations=1, **sections).model_dump(mode="json")
    arguments = ["--set", "iterations=1"]
    for section in ("policy", "rollout", "optimizer", "evaluation", "checkpoint"):
        for name, value in data[section].items():
            arguments += ["--set", f"{section}.{name}={value}"]
    return arguments


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--set", "iterations"], "--set takes section.field=value, not 'iterations'"),
        (["--set", "iterations=many"], "iterations: must be a whole number, not 'many'"),
        (["--set", "iterations=0"], "iterations: must be greater than 0"),
        (["--set", "rollout.turns=3"], "rollout.turns: there is no setting of this name"),
        (["--set", "rolling.turns=3"], "--set rolling.turns=3: there is no section 'rolling'"),
        (["--set", "tags=[1"], "--set tags=[1: the value is not valid YAML"),
        (["--set", "rollout.group_size=1"], "rollout.group_size must be at least 2"),
        (["--set", "algorithm.estimator=ppo"], "algorithm.estimator: must be 'gae', 'bi_level_gae'"),
        (["--set", "environment.name=Chess"], "unknown environment 'Chess'; choose one of"),
        (["--set", "environment.settings={boxes: 99}"], "boxes"),
        (["--set", "policy.model=/no/such/folder"], "policy.model: there is no folder '/no/such/folder'"),
        (["--set", "policy.model=ModelThatIsNoPath"], "policy.model: there is no folder 'ModelThatIsNoPath'"),
    ],
)
def test_an_invalid_setting_is_reported_in_a_sentence(tmp_path, capsys, arguments, complaint):
    assert train(tmp_path / "run", *arguments) == 2
    output = capsys.readouterr().err
    assert complaint in output
    assert output.startswith("error: ")
    assert "Traceback" not in output


def test_an_unknown_preset_is_reported_with_the_choices(tmp_path, capsys):
    assert train(tmp_path, preset="atari") == 2
    assert f"unknown preset 'atari'; choose one of {', '.join(preset_names())}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, complaint",
    [
        (None, "No such file or directory"),
        ("- a list", "must hold a mapping of settings, not list"),
        ("iterations: [", "is not valid YAML"),
        ("iterations: 1\nfoo: 2", "foo: there is no setting of this name"),
    ],
)
def test_an_invalid_file_of_settings_is_reported(tmp_path, capsys, text, complaint):
    file = tmp_path / "run.yaml"
    if text is not None:
        file.write_text(text)
    assert main.main(["train", "--config", str(file), "--out", str(tmp_path / "run")]) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_folder_without_weights_is_reported(tmp_path, capsys):
    (tmp_path / "model").mkdir()
    assert train(tmp_path / "run", "--set", f"policy.model={tmp_path / 'model'}") == 2
    assert "holds no *.safetensors file" in capsys.readouterr().err


def test_a_context_too_small_for_the_first_prompt_is_reported(tmp_path, capsys, pocket_folder):
    more = [*changes(pocket_folder), "--set", "rollout.max_response_tokens=2000"]
    assert train(tmp_path / "run", *more) == 2
    assert "the policy's context holds only 2048" in capsys.readouterr().err


def test_an_output_that_is_a_file_is_reported(tmp_path, capsys):
    (tmp_path / "run").write_text("")
    assert train(tmp_path / "run") == 2
    assert "error: " in capsys.readouterr().err


def test_missing_arguments_are_reported_with_the_usage(capsys):
    for arguments in ([], ["train"], ["train", "--preset", "a", "--config", "b", "--out", "c"], ["fly"]):
        with pytest.raises(SystemExit) as end:
            main.main(arguments)
        assert end.value.code == 2
        assert "usage: python -m trainer" in capsys.readouterr().err


def test_a_run_completes_and_its_folder_is_not_overwritten(tmp_path, capsys, pocket_folder):
    folder = tmp_path / "run"
    assert train(folder, *changes(pocket_folder)) == 0
    out = capsys.readouterr().out
    assert out.startswith("All 1 iterations are done.\n")
    assert "success_after" in out
    events = list(reader.read(folder / JOURNAL_FILE))
    requested = load_yaml(folder / "config.yaml")
    assert requested.with_prompts(pocket=True) == RunConfig.model_validate(events[1].config)

    assert train(folder, *changes(pocket_folder)) == 2
    assert "already holds a run: add --resume to continue it, or choose another --out" in capsys.readouterr().err
    assert len(list(reader.read(folder / JOURNAL_FILE))) == len(events)

    assert train(folder, *changes(pocket_folder), "--resume") == 0
    assert [event.seq for event in reader.read(folder / JOURNAL_FILE)][-1] > len(events)


def test_a_run_that_could_not_start_does_not_occupy_its_folder(tmp_path, capsys, pocket_folder):
    folder = tmp_path / "run"
    assert train(folder, "--set", "policy.model=/no/such/folder") == 2
    assert train(folder, *changes(pocket_folder)) == 0
    assert "already holds a run" not in capsys.readouterr().err


def test_presets_are_listed_and_all_are_valid(capsys):
    assert main.main(["presets"]) == 0
    assert capsys.readouterr().out.split() == preset_names()
    for name in preset_names():
        assert load_preset(name).iterations > 0


def test_overrides_take_precedence_over_the_preset():
    config = main.with_overrides(
        load_preset("sokoban-pocket"), ["seed=7", "optimizer.policy_lr=1e-5", "tags=[a, b]", "algorithm.dual_clip=3"]
    )
    assert (config.seed, config.tags) == (7, ["a", "b"])
    assert (config.optimizer.policy_lr, config.algorithm.dual_clip) == (1e-5, 3)
    assert config.algorithm.estimator == load_preset("sokoban-pocket").algorithm.estimator


@pytest.mark.nightly
def test_the_module_runs_on_its_own(tmp_path, pocket_folder):
    """From a shell, with real signals and without the site."""
    command = [sys.executable, "-m", "trainer", "train", "--preset", "sokoban-pocket", "--out", str(tmp_path / "run")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "ECHOSCOPE"))}
    done = subprocess.run(
        [*command, *changes(pocket_folder)],
        cwd=ROOT,
        env=environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all("had no update" in line for line in done.stderr.splitlines()), done.stderr  # random weights may need it
    assert "All 1 iterations are done." in done.stdout
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["iterations"] == 1


def test_the_shipped_policy_plays(tmp_path):
    small = ["iterations=1", "rollout.groups=2", "rollout.group_size=2", "evaluation.prompts=4", "policy.threads=1"]
    assert train(tmp_path / "run", *[part for change in small for part in ("--set", change)]) == 0
    turns = [event for event in reader.read(tmp_path / "run" / JOURNAL_FILE) if event.type == "turn"]
    assert sum(turn.format_valid for turn in turns) > 0.9 * len(turns)


@pytest.fixture(scope="module")
def trained(pocket_folder, tmp_path_factory):
    """The folder of a finished run with adapters."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    more = ["--set", "lora.rank=2", "--set", "rollout.max_turns=1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("signal.signal", lambda number, handler: None)
        assert train(folder, *changes(pocket_folder, evaluation={"prompts": 2}), *more) == 0
    return folder


def test_a_policy_is_evaluated_with_the_settings_of_its_run(tmp_path, capsys, trained):
    arguments = [
        "evaluate",
        "--policy",
        str(trained),
        "--out",
        str(tmp_path / "evaluation"),
        "--set",
        "evaluation.samples_per_prompt=2",
    ]
    assert main.main([*arguments, "--suites", "Sokoban", "Bandit"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("All 2 suites are played.\n| suite | prompts | success |")
    assert "\n| Bandit | 2 × 2 |" in out
    config = load_yaml(tmp_path / "evaluation" / "config.yaml")
    assert (config.kind, config.policy.model, config.rollout.max_turns) == ("evaluate", str(trained), 1)

    assert main.main([*arguments, "--suites", "Sokoban", "Bandit"]) == 2
    assert "already holds a run: add --resume" in capsys.readouterr().err
    assert main.main([*arguments, "--suites", "Sokoban", "Bandit", "--resume"]) == 0
    assert sum(event.type == "evaluation" for event in reader.read(tmp_path / "evaluation" / JOURNAL_FILE)) == 2


def test_a_policy_without_a_run_needs_settings(tmp_path, capsys, pocket_folder):
    arguments = ["evaluate", "--policy", str(pocket_folder), "--out", str(tmp_path / "evaluation")]
    assert main.main(arguments) == 2
    assert "is no run's folder with settings: add --preset or --config, or --set env" in capsys.readouterr().err
    small = changes(pocket_folder, evaluation={"prompts": 2})
    assert main.main([*arguments, "--preset", "sokoban-pocket", *small]) == 0
    named = ["--set", "environment.name=ToolCalculator", *small, "--out", str(tmp_path / "named")]
    assert main.main([*arguments, *named]) == 0
    assert load_yaml(tmp_path / "named" / "config.yaml").environment.name == "ToolCalculator"


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--policies", "pocket", "--suites", "Chess"], "unknown environment 'Chess'"),
        (["--policies", "pocket", "pocket", "--suites", "Bandit"], "two policies have the name 'pocket'"),
        (
            ["--policies", "pocket", "--suites", "Bandit", "--set", "evaluation.prompts=0"],
            "evaluation.prompts of at least 1",
        ),
        (
            ["--policies", "a=/no/such/folder", "--suites", "Bandit"],
            "policy.model: there is no folder '/no/such/folder'",
        ),
    ],
)
def test_an_invalid_matrix_is_reported(tmp_path, capsys, arguments, complaint):
    assert main.main(["matrix", *arguments, "--out", str(tmp_path / "matrix")]) == 2
    assert complaint in capsys.readouterr().err


def test_a_matrix_is_completed_printed_and_resumed(tmp_path, capsys, trained, pocket_folder):
    small = ["--set", "evaluation.prompts=2", "--set", "policy.threads=1", "--set", "rollout.max_response_tokens=8"]
    arguments = [
        "matrix",
        "--policies",
        f"trained={trained}",
        f"fresh={pocket_folder}",
        "--suites",
        "Bandit",
        "BanditRev",
    ]
    folder = tmp_path / "matrix"
    assert main.main([*arguments, *small, "--out", str(folder)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("All 4 cells are played.\n| policy | trained on | Bandit | BanditRev |")
    assert "\n| trained | Sokoban | " in out
    assert main.main([*arguments, *small, "--out", str(folder)]) == 2
    assert main.main([*arguments, *small, "--out", str(folder), "--resume"]) == 0
    assert (folder / "generalization.md").read_text(encoding="utf-8") in out


def test_the_baseline_uses_the_papers_adapters_by_default(tmp_path, capsys, pocket_folder):
    few = ["sft.demonstrations=2", "sft.batch=2", "lora.alpha=16"]
    more = [*changes(pocket_folder, evaluation={"prompts": 0}), *[part for change in few for part in ("--set", change)]]
    assert main.main(["sft", "--preset", "sokoban-pocket", "--out", str(tmp_path / "run"), *more]) == 0
    assert "All 1 iterations are done." in capsys.readouterr().out
    config = load_yaml(tmp_path / "run" / "config.yaml")
    assert (config.kind, config.lora.rank, config.lora.alpha) == ("sft", 64, 16)
    events = list(reader.read(tmp_path / "run" / JOURNAL_FILE))
    assert any("sft/loss" in event.values for event in events if event.type == "metrics")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--config", "FILE"], (0, 32)),
        (["--config", "FILE", "--set", "lora.rank=8"], (8, 32)),
        (["--set", "environment.name=Bandit"], (64, 32)),
        (["--preset", "sokoban-pocket", "--set", "lora.alpha=16"], (64, 16)),
    ],
)
def test_defaults_of_the_baseline_are_below_the_file_and_the_command_line(tmp_path, arguments, expected):
    file, out = tmp_path / "sft.yaml", tmp_path / "run"
    file.write_text("lora: {rank: 0}\nenvironment: {name: Bandit}\n")
    words = [str(file) if word == "FILE" else word for word in arguments]
    main.prepare(parser().parse_args(["sft", *words, "--out", str(out)]))
    config = load_yaml(out / "config.yaml")
    assert (config.lora.rank, config.lora.alpha, config.kind) == (*expected, "sft")


def test_a_run_without_any_settings_is_refused(tmp_path, capsys):
    for command in ("train", "sft"):
        assert main.main([command, "--out", str(tmp_path / "run")]) == 2
        assert "name the settings: --preset, --config, or --set" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_lack_of_demonstrations_is_reported(tmp_path, capsys, pocket_folder, monkeypatch):
    monkeypatch.setattr(imitation_stage, "MAX_SOLUTION_LENGTH", 1)
    more = [*changes(pocket_folder), "--set", "environment.settings={min_length: 5}"]
    assert main.main(["sft", "--preset", "sokoban-pocket", "--out", str(tmp_path / "run"), *more]) == 2
    assert "Sokoban gives too few demonstrations" in capsys.readouterr().err


def test_a_policy_is_exported_and_failures_are_reported(tmp_path, capsys, trained):
    out = tmp_path / "policy"
    assert main.main(["export", "--run", str(trained), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: the policy of {trained / 'checkpoints' / '000001'}\n"
    assert (out / "model.safetensors").exists()
    assert main.main(["export", "--run", str(trained), "--out", str(tmp_path / "adapter"), "--adapter"]) == 0
    assert (tmp_path / "adapter" / "adapter_model.safetensors").exists()
    capsys.readouterr()
    for more, complaint in (
        (["--out", str(out)], "is not empty: choose another folder"),
        (["--out", str(tmp_path / "a"), "--iteration", "9"], "there is no checkpoint of iteration 9; there are 1"),
    ):
        assert main.main(["export", "--run", str(trained), *more]) == 2
        assert complaint in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_has_an_exit_code_of_its_own(tmp_path, capsys):
    (tmp_path / "config.yaml").symlink_to("/dev/full")
    assert train(tmp_path) == DISK_FULL
    assert "No space left on device" in capsys.readouterr().err


def test_a_disk_that_fills_up_during_training_has_it_too(tmp_path, pocket_folder):
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        assert train(tmp_path / "run", *changes(pocket_folder)) == DISK_FULL
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
