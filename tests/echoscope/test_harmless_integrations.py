"""Whatever fails in an integration, the training goes on as it would without the integration."""

from __future__ import annotations

import asyncio
import errno
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import TrainerControl

import echoscope
from echoscope.integrations.transformers_trainer import EchoscopeCallback
from echoscope.integrations.trl_rewards import EchoscopeRewards
from echoscope.integrations.verifiers_rollouts import EchoscopeMonitor
from echoscope.recording import journal_writer
from tests.echoscope.recording.caught_warnings import caught_warnings
from tests.echoscope.recording.test_any_value import VALUES
from tests.echoscope.test_integrations import real_trainer, tracking_of_verl
from trainer.journal.reader import read


def recorded(folder: Path, kind: str) -> list[Any]:
    return [event for event in read(folder / "journal.jsonl") if event.type == kind]


def is_full(*_: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_training_of_transformers_ends_as_without_the_callback_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_writer.os, "write", is_full)
    trainer = real_trainer(tmp_path, EchoscopeCallback(folder=tmp_path / "run"))
    with caught_warnings() as messages:
        trainer.train()
    assert trainer.state.global_step == 4
    ours = [message for message in messages if "recorded" in message]
    assert len(ours) == 1
    assert ours[0].startswith("Nothing of this run is recorded: ")


def test_a_training_of_transformers_goes_on_where_its_run_cannot_begin(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    trainer = real_trainer(tmp_path, EchoscopeCallback(folder=tmp_path / "run"))
    with caught_warnings():
        trainer.train()
    assert trainer.state.global_step == 4
    with pytest.raises(ValueError, match="must begin with http:// or https://"):
        EchoscopeCallback(folder=tmp_path, url="localhost:8000", token="es_x")


def unsure(completions: list[Any], **_: Any) -> list[Any]:
    return [math.nan if number % 2 else np.float32(0.5) for number, _ in enumerate(completions)]


def test_a_reward_of_trl_that_is_not_a_number_is_left_out_of_its_completion(tmp_path: Path) -> None:
    rewards = EchoscopeRewards([unsure, lambda completions, **_: [1.0] * len(completions)], success_at=1.0)
    rewards.callback.run = echoscope.init("TRL", folder=tmp_path)
    given = {"prompts": ["2 + 2?"] * 2, "completions": ["4", "5"], "completion_ids": [[4, 9], [5, 5]]}
    with caught_warnings() as messages:
        results = [function(**given, trainer_state=None) for function in rewards.functions]
    assert math.isnan(results[0][1]), "the trainer gets what the function returned"
    assert [message[:58] for message in messages] == ["The reward function unsure returned a reward that is no fi"]
    assert [turn.terms for turn in recorded(tmp_path, "turn")] == [{"unsure": 0.5, "<lambda>": 1.0}, {"<lambda>": 1.0}]
    assert [(end.success, end.total_reward) for end in recorded(tmp_path, "trajectory_finished")] == [
        (True, 1.5),
        (None, 1.0),
    ]


def test_rewards_of_an_iterator_and_of_functions_with_one_name_reach_the_trainer_and_the_run(tmp_path: Path) -> None:
    functions = [lambda completions, **_: iter([0.25] * len(completions)), lambda completions, **_: [0.5] * 2]
    rewards = EchoscopeRewards(functions)
    rewards.callback.run = echoscope.init("TRL", folder=tmp_path)
    given = {"prompts": ["2 + 2?"] * 2, "completions": ["4", "5"], "completion_ids": [[4, 9], [5, 5]]}
    results = [function(**given, trainer_state=None) for function in rewards.functions]
    assert [list(result) for result in results] == [[0.25, 0.25], [0.5, 0.5]]
    assert [turn.terms for turn in recorded(tmp_path, "turn")] == [{"<lambda>": 0.25, "<lambda> 2": 0.5}] * 2
    assert [end.total_reward for end in recorded(tmp_path, "trajectory_finished")] == [0.75, 0.75]


def test_completions_of_trl_without_an_end_token_are_truncated(tmp_path: Path) -> None:
    rewards = EchoscopeRewards(lambda completions, **_: [1.0] * len(completions), folder=tmp_path)
    tokenizer = SimpleNamespace(eos_token_id=9)
    model = SimpleNamespace(training=True, generation_config=SimpleNamespace(eos_token_id=[7, 8]))
    arguments = SimpleNamespace(run_name="TRL", to_sanitized_dict=dict)
    state = SimpleNamespace(is_world_process_zero=True, max_steps=2, global_step=0)
    rewards.callback.on_train_begin(
        arguments,  # type: ignore[arg-type]
        state,  # type: ignore[arg-type]
        TrainerControl(),
        model=model,
        processing_class=tokenizer,
    )
    ids = [[4, 9], [4, 7], [4, 4]]
    rewards.functions[0](prompts=["p"] * 3, completions=["4"] * 3, completion_ids=ids, trainer_state=state)
    ends = [end.end for end in recorded(tmp_path, "trajectory_finished")]
    assert ends == ["terminated", "terminated", "truncated"]


@pytest.mark.parametrize("name", ["prompts", "completions", "completion_ids", "answer", "trainer_state", "rewards"])
def test_no_value_that_trl_passes_ends_its_training(name: str, tmp_path: Path) -> None:
    for number, value in enumerate(VALUES):
        expected = value if name == "rewards" else [1.0]

        async def function(expected: Any = expected, **_: Any) -> Any:
            return expected

        rewards = EchoscopeRewards(function)
        rewards.callback.run = echoscope.init("TRL", folder=tmp_path / f"{number}")
        given = {"prompts": ["p"], "completions": ["c"], "completion_ids": [[1]], "answer": ["a"]}
        with caught_warnings():
            result = asyncio.run(rewards.functions[0](**(given | {name: value})))
        assert result is expected
        list(read(tmp_path / f"{number}" / "journal.jsonl"))


def test_no_value_that_prime_rl_logs_ends_its_training(tmp_path: Path) -> None:
    monitor = EchoscopeMonitor(echoscope.init("Prime", folder=tmp_path))
    good = {"prompt": "Guess.", "completion": "crane", "reward": 1.0}
    with caught_warnings() as messages:
        for value in VALUES:
            monitor.log(value, step=1)
            monitor.log({"loss": value}, step=value)
            monitor.log_samples(value, step=1)
            for name in (
                "prompt",
                "completion",
                "reward",
                "example_id",
                "token_usage",
                "is_truncated",
                "error",
                "info",
            ):
                monitor.log_samples([good | {name: value}], step=1)
            monitor.log_eval_samples([good, value], value, step=1)
        monitor.log_samples([good], step=2)
        monitor.close()
    assert len(messages) == len(set(messages))
    assert recorded(tmp_path, "turn")[-1].response == "crane"
    assert recorded(tmp_path, "metrics")[-1].values["reward/mean"] == 1.0


def test_a_training_of_verl_goes_on_without_a_folder_and_with_any_value(tmp_path: Path) -> None:
    from echoscope.integrations.verl_tracking import install

    tracking = tracking_of_verl()
    for number, options in enumerate([{"folder": __file__}, {"url": "localhost:8000", "token": "es_x"}, {}]):
        install(tracking, **({"folder": tmp_path / f"{number}"} | options))  # type: ignore[arg-type]
        with caught_warnings() as messages:
            training = tracking("ppo", "gsm8k", ["console", "echoscope"], {"trainer": {"total_training_steps": 1}})
            for value in VALUES:
                training.log({"loss": value}, step=1)
            training.log({"loss": torch.tensor(1.0)}, step=2)
            training.finish(0)
        assert training.exit_codes == [0]
        assert len(training.logger["console"].lines) == len(VALUES) + 1
        assert len(messages) == 1, "of the folder, of the address, and of values that are not finite"
    assert recorded(tmp_path / "2", "run_finished")[0].reason == "completed"
