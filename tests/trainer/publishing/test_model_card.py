"""Model cards: valid metadata, the results of exactly these weights, nothing private, and the upload."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from huggingface_hub import ModelCard, constants

from tests.trainer.hub_server import Hub
from tests.webapp import recorded_journal as recorded
from trainer.cli import main
from trainer.config.files import load_yaml, with_overrides
from trainer.config.run import RunConfig
from trainer.journal.writer import Journal
from trainer.publishing import model_card, run_facts
from trainer.publishing.origin import read_origin


@pytest.fixture(scope="module")
def exported(recorded_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "policy"
    assert main.main(["export", "--run", str(recorded_run), "--out", str(out), "--license", "apache-2.0"]) == 0
    return out


def facts_of(folder: Path, config: RunConfig) -> run_facts.RunFacts:
    log = Journal(folder)
    log.write(recorded.started(config))
    log.close()
    return run_facts.read_facts(folder)


def test_the_metadata_is_read_by_the_library_of_the_hub(exported: Path) -> None:
    data = ModelCard.load(exported / "README.md").data
    assert (data.license, data.library_name, data.pipeline_tag) == ("apache-2.0", "transformers", "text-generation")
    assert data.base_model is None, "the pocket policy is no repository"
    assert {"echoscope", "starpo", "reinforcement-learning", "env:Sokoban"} <= set(data.tags)
    results = {result.metric_type: result for result in data.eval_results}
    success = results["success_rate"]
    assert (success.dataset_name, success.metric_value) == ("Sokoban", 0.5), "that of iteration 2, not of another"
    assert (success.metric_args["low"], success.metric_args["high"], success.metric_args["prompts"]) == (
        0.44,
        0.56,
        256,
    )


def test_the_card_shows_results_settings_and_a_trajectory(exported: Path) -> None:
    text = (exported / "README.md").read_text()
    assert "| Sokoban | 2 | 256 | 50.0% | 44.0% to 56.0% |" in text
    assert "weights after iteration 2 of 4" in text
    assert "--preset sokoban-starpo_s-pocket" in text
    assert "--set 'rollout.groups=2'" in text
    assert "| commit of Echoscope | c0ffee |" in text
    assert "── turn 1: state" in text
    assert "Iteration 2, " in text.partition("## A trajectory")[2]
    assert "0.99" not in text
    assert "99.0%" not in text, "the evaluation of a superseded iteration"


def test_the_curve_is_a_picture_with_the_interval_of_each_evaluation(exported: Path) -> None:
    root = ElementTree.parse(exported / "success.svg").getroot()
    assert root.tag.endswith("svg")
    text = (exported / "success.svg").read_text()
    assert len(re.findall(r"M[\d.]+ [\d.]+V", text)) == 2, "evaluations before training and of iteration 2"
    assert "![Success by iteration](success.svg)" in (exported / "README.md").read_text()


def test_the_folder_is_a_checkpoint_of_transformers(exported: Path) -> None:
    from transformers import AutoConfig, AutoTokenizer

    assert AutoConfig.from_pretrained(exported).architectures
    assert AutoTokenizer.from_pretrained(exported).chat_template
    assert not (exported / "learner.pt").exists()


def test_the_settings_can_be_trained_with_again(exported: Path, config: RunConfig) -> None:
    again = load_yaml(exported / "training_config.yaml")
    assert again.model_dump() == config.model_dump()


def test_the_command_gives_the_same_settings(config: RunConfig) -> None:
    changed = with_overrides(config, ["environment.settings={boxes: 2}", "rollout.system=It's “quoted”", "lora.rank=4"])
    preset, changes = run_facts.nearest_preset(changed)
    from trainer.config.files import load_preset

    pairs = [f"{name}={yaml.safe_dump(value, default_flow_style=True)}" for name, value in changes.items()]
    assert with_overrides(load_preset(preset), pairs).model_dump() == changed.model_dump()
    assert "--set 'rollout.system=It'\\''s “quoted”'" in run_facts.command(changed)


def test_addresses_and_folders_of_the_machine_are_not_published(tmp_path: Path, config: RunConfig) -> None:
    private = with_overrides(
        config,
        [
            f"policy.model={tmp_path}/secret-folder/base",
            "engine.urls=[http://gpu7.internal:8000]",
        ],
    )
    facts = facts_of(tmp_path / "run", private)
    out = tmp_path / "out"
    out.mkdir()
    model_card.write_card(out, facts, None, licence="", adapter=False)
    published = "".join(path.read_text() for path in out.iterdir())
    for secret in ("secret-folder", "gpu7", str(tmp_path)):
        assert secret not in published


def test_a_variant_of_an_adapter_is_a_benchmark_of_its_own(tmp_path: Path, config: RunConfig) -> None:
    taxi = with_overrides(config, ["environment.name=Gymnasium", "environment.settings={id: Taxi-v4}"])
    facts = facts_of(tmp_path, taxi)
    facts.evaluations.append(recorded.evaluated(facts.iteration, 0.5).model_copy(update={"suite": "Gymnasium"}))
    data = model_card.metadata(facts)
    assert "env:Gymnasium Taxi-v4" in data["tags"]
    assert data["model-index"][0]["results"][0]["dataset"]["name"] == "Gymnasium Taxi-v4"
    text = model_card.body(facts, None, curve=False)
    assert "**Gymnasium Taxi-v4**" in text
    assert "| Gymnasium Taxi-v4 | 0 |" in text


@pytest.mark.parametrize(
    ("given", "published"),
    [
        ("https://me:secret@host.example:8443/echo?key=1", "https://host.example:8443/echo"),
        ("http://host.example/echo", "ADDRESS"),
        ("https://10.0.0.5/echo", "ADDRESS"),
        ("https://[::1]:80", "ADDRESS"),
        ("https://host.example:port", "ADDRESS"),
        ("https://games.internal", "ADDRESS"),
        ("/usr/bin/python /home/me/server.py --fast", "python server.py --fast"),
        ("Taxi-v4", "Taxi-v4"),
    ],
)
def test_settings_of_environments_are_published_without_private_places(
    config: RunConfig, given: str, published: str
) -> None:
    private = config.model_copy(deep=True)
    private.environment.settings["id"] = given
    assert run_facts.public_settings(private)["environment"]["settings"]["id"] == published


def test_a_default_title_is_published_without_private_places(tmp_path: Path, config: RunConfig) -> None:
    echo = "environment.settings={id: 'http://10.0.0.5:8000/echo'}"
    private = with_overrides(config, ["name=''", "environment.name=OpenEnv", echo])
    assert "10.0.0.5" in private.title()
    facts = facts_of(tmp_path, private)
    facts.evaluations.append(recorded.evaluated(facts.iteration, 0.5))
    assert facts.title == private.title().replace(" http://10.0.0.5:8000/echo", "")
    assert "10.0.0.5" not in model_card.body(facts, None, curve=False)
    assert model_card.metadata(facts)["model-index"][0]["name"] == facts.title
    assert read_origin(tmp_path).title == facts.title


def test_a_hub_id_is_the_base_model_and_a_licence_is_only_what_was_given(tmp_path: Path, config: RunConfig) -> None:
    facts = facts_of(tmp_path, with_overrides(config, ["policy.model=Qwen/Qwen3-0.6B", "lora.rank=8"]))
    data = model_card.metadata(facts)
    assert (data["base_model"], data["base_model_relation"]) == ("Qwen/Qwen3-0.6B", "finetune")
    assert "license" not in data
    assert "model-index" not in data, "nothing was evaluated"
    adapter = model_card.metadata(facts, adapter=True)
    assert (adapter["library_name"], adapter["base_model_relation"]) == ("peft", "adapter")


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="name the folder of a run"):
        run_facts.read_facts(tmp_path)
    Journal(tmp_path).close()
    with pytest.raises(ValueError, match="never started"):
        run_facts.read_facts(tmp_path)


def test_texts_of_a_run_are_no_markup(tmp_path: Path, config: RunConfig) -> None:
    start = recorded.started(config).model_copy(update={"title": "<b>[x](y)</b> | \n# z", "device": "a|b"})
    log = Journal(tmp_path)
    log.write(start)
    log.close()
    text = model_card.body(run_facts.read_facts(tmp_path), None, curve=False)
    assert text.startswith("# \\<b\\>\\[x\\](y)\\</b\\> | # z\n")
    assert "| device | a\\|b |" in text


def push(run: Path, out: Path, *more: str) -> int:
    return main.main(["export", "--run", str(run), "--out", str(out), "--push", "ada/agent", *more])


def test_a_policy_is_pushed_with_its_card(
    recorded_run: Path, tmp_path: Path, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert push(recorded_run, tmp_path / "out", "--private") == 0
    assert f"{hub.url}/ada/agent" in capsys.readouterr().out
    assert hub.repositories == {"models/ada/agent": True}
    files = hub.files["models/ada/agent"]
    local = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert files == local, "also the weights, by Git LFS"
    assert {"README.md", "success.svg", "training_config.yaml", "model.safetensors", "config.json"} <= set(files)


def test_nothing_private_is_pushed_to_a_public_repository(
    recorded_run: Path, tmp_path: Path, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.repositories["models/ada/agent"] = False
    assert push(recorded_run, tmp_path / "out", "--private") == 2
    assert "exists and is public: nothing was uploaded" in capsys.readouterr().err
    assert hub.files == {}


def test_what_an_upload_needs_is_checked_before_anything_is_written(
    recorded_run: Path, tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["export", "--run", str(recorded_run), "--out", str(out)]
    assert main.main([*arguments, "--private"]) == 2
    assert "--private belongs to --push" in capsys.readouterr().err
    assert main.main([*arguments, "--push", "agent"]) == 2
    assert "OWNER/NAME" in capsys.readouterr().err
    assert main.main([*arguments, "--push", "ada/not a name"]) == 2
    assert "not a name" in capsys.readouterr().err
    monkeypatch.delenv("HF_TOKEN")
    assert push(recorded_run, out) == 2
    assert "run 'hf auth login', or set HF_TOKEN" in capsys.readouterr().err
    assert not out.exists()


def test_the_error_of_an_upload_has_the_reason_and_how_to_repeat_it(
    recorded_run: Path, tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.read_only = True
    assert push(recorded_run, tmp_path / "refused") == 1
    message = capsys.readouterr().err
    assert "the Hub answered 403: You have read but not write access." in message
    assert f"hf upload ada/agent {tmp_path / 'refused'}" in message
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert push(recorded_run, tmp_path / "away") == 1
    assert "was not uploaded" in capsys.readouterr().err
    assert (tmp_path / "away" / "README.md").exists()
