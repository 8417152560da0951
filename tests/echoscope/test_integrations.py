"""Callbacks and loggers of other trainers record what these trainers do: the real one of transformers, and the
documented interfaces of TRL, verl and prime-rl.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import Trainer, TrainerControl, TrainingArguments

import echoscope
from echoscope.integrations.transformers_trainer import EchoscopeCallback
from echoscope.integrations.trl_rewards import EchoscopeRewards
from echoscope.integrations.verifiers_rollouts import EchoscopeMonitor
from echoscope.integrations.verl_tracking import install
from tests.echoscope.recording.caught_warnings import caught_warnings
from trainer.journal.events import AnyEvent
from trainer.journal.reader import read


def events(folder: Path) -> dict[str, list[Any]]:
    found: dict[str, list[AnyEvent]] = {}
    for event in read(folder / "journal.jsonl"):
        found.setdefault(event.type, []).append(event)
    return found


class Line(torch.nn.Module):
    """A model of one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": ((self.weight * x - labels) ** 2).mean(), "logits": self.weight * x}


def real_trainer(folder: Path, *callbacks: Any, **settings: Any) -> Trainer:
    data = [{"x": torch.ones(1), "labels": torch.ones(1)} for _ in range(8)]
    settings = {"save_strategy": "no"} | settings
    arguments = TrainingArguments(
        output_dir=str(folder / "out"),
        max_steps=4,
        logging_steps=2,
        per_device_train_batch_size=2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **settings,
    )
    return Trainer(
        model=Line(),
        args=arguments,
        train_dataset=data,
        eval_dataset=data[:2],
        callbacks=[*callbacks],  # type: ignore[arg-type]
    )


def test_a_training_of_transformers_is_recorded_with_its_settings_and_logs(tmp_path: Path) -> None:
    callback = EchoscopeCallback("Line", folder=tmp_path / "run")
    real_trainer(tmp_path, callback, eval_strategy="steps", eval_steps=2, learning_rate=0.5).train()
    recorded = events(tmp_path / "run")
    (started,), (finished,) = recorded["run_started"], recorded["run_finished"]
    assert (started.title, started.iterations) == ("Line", 4)
    assert started.config["recorded"]["trainer"]["learning_rate"] == 0.5
    values = {(event.iteration, name) for event in recorded["metrics"] for name in event.values}
    assert {(2, "loss"), (4, "loss"), (2, "eval_loss"), (4, "grad_norm"), (4, "train_loss")} <= values
    assert not {"epoch", "total_flos"} & {name for _, name in values}
    assert (finished.reason, finished.iteration) == ("completed", 4)


def test_a_training_that_stops_early_is_not_complete(tmp_path: Path) -> None:
    class Stop(EchoscopeCallback):
        def on_step_end(self, args: Any, state: Any, control: TrainerControl, **kwargs: Any) -> None:
            control.should_training_stop = state.global_step == 3

    real_trainer(tmp_path, Stop("Stopped", folder=tmp_path / "run")).train()
    (finished,) = events(tmp_path / "run")["run_finished"]
    assert (finished.reason, finished.message) == ("interrupted", "Stopped at step 3 of 4.")


def test_a_resumed_training_continues_its_run_from_the_checkpoint(tmp_path: Path) -> None:
    saving = {"save_strategy": "steps", "save_steps": 2}
    real_trainer(tmp_path, EchoscopeCallback("Line", folder=tmp_path / "run"), **saving).train()
    (checkpoint,) = tmp_path.rglob("checkpoint-2")
    with caught_warnings() as messages:
        resumed = real_trainer(tmp_path, EchoscopeCallback("Line", folder=tmp_path / "run"), **saving)
        resumed.train(resume_from_checkpoint=str(checkpoint))
    assert not [message for message in messages if "run" in message]
    recorded = events(tmp_path / "run")
    assert [(event.attempt, event.from_iteration) for event in recorded["run_started"]] == [(1, 0), (2, 2)]
    assert recorded["metrics"][-1].iteration == 4


def test_a_run_of_ones_own_is_neither_begun_nor_ended(tmp_path: Path) -> None:
    with echoscope.init("Mine", folder=tmp_path / "run") as run:
        real_trainer(tmp_path, EchoscopeCallback(run=run)).train()
        run.log({"mine": 1.0}, iteration=5)
    recorded = events(tmp_path / "run")
    assert [event.title for event in recorded["run_started"]] == ["Mine"]
    assert recorded["metrics"][-1].values == {"mine": 1.0}
    assert len(recorded["run_finished"]) == 1


def correct(prompts: list[Any], completions: list[Any], answer: list[str], **kwargs: Any) -> list[float]:
    return [float(completion[0]["content"] == right) for completion, right in zip(completions, answer, strict=True)]


async def short(completions: list[Any], **kwargs: Any) -> list[float | None]:
    return [None if len(completion[0]["content"]) > 9 else 0.5 for completion in completions]


def reward_with_trl(rewards: EchoscopeRewards, state: Any) -> list[Any]:
    """Calls the reward functions as GRPOTrainer does: by keywords, columns of the data set as lists."""
    question = [{"role": "user", "content": "2 + 2?"}]
    given = {
        "prompts": [question, question],
        "completions": [[{"role": "assistant", "content": text}] for text in ("4", "It is five.")],
        "completion_ids": [[1, 2], [3, 4, 5]],
        "answer": ["4", "4"],
        "trainer_state": state,
    }
    called = [function(**given) for function in rewards.functions]
    return [asyncio.run(result) if asyncio.iscoroutine(result) else result for result in called]


def test_reward_functions_of_trl_record_the_completions_of_each_step(tmp_path: Path) -> None:
    rewards = EchoscopeRewards([correct, short], folder=tmp_path / "run", environment="Sums", weights=[1.0, 0.5])
    assert [function.__name__ for function in rewards.functions] == ["correct", "short"]
    results: list[Any] = []

    class Play(EchoscopeCallback):
        """Rewards completions within the training, and within the evaluation after the second step."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 0:
                results.append(reward_with_trl(rewards, state))

        def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 2:
                results.append(reward_with_trl(rewards, state))

    player = Play(run=echoscope.init("unused", folder=tmp_path / "unused"))
    real_trainer(tmp_path, rewards.callback, player, eval_strategy="steps", eval_steps=2).train()
    assert results[0] == [[1.0, 0.0], [0.5, None]]
    recorded = events(tmp_path / "run")
    first, second = recorded["group_started"]
    assert (first.iteration, first.split, len(first.members), first.environment) == (1, "train", 2, "Sums")
    assert (second.iteration, second.split, second.suite) == (2, "eval", "Sums")
    right, wrong = recorded["turn"][:2]
    assert (right.state, right.response, right.terms, right.tokens) == ("2 + 2?", "4", {"correct": 1, "short": 0.25}, 2)
    assert wrong.terms == {"correct": 0}
    assert [end.success for end in recorded["trajectory_finished"][:2]] == [True, False]
    assert recorded["trajectory_finished"][0].extra == {"record": {"answer": "4"}}
    (evaluation,) = recorded["evaluation"]
    assert (evaluation.iteration, evaluation.suite, evaluation.prompts, evaluation.samples) == (2, "Sums", 1, 2)
    assert (evaluation.success, evaluation.mean_reward) == (0.5, 0.625)


def test_a_step_that_cannot_be_recorded_does_not_stop_the_training(tmp_path: Path) -> None:
    rewards = EchoscopeRewards(lambda completions, **_: [1.0], folder=tmp_path / "run")
    rewards.callback.run = echoscope.init("x", folder=tmp_path / "run")
    with pytest.warns(RuntimeWarning, match="recorded nothing: message 2 is a number"):
        assert rewards.functions[0](prompts=["a"], completions=[3], trainer_state=None) == [1.0]
    with pytest.raises(ValueError, match="2 reward functions"):
        EchoscopeRewards([correct, short], weights=[1.0])
    with pytest.raises(ValueError, match="'org/reward-model' is no reward function"):
        EchoscopeRewards(["org/reward-model"])  # type: ignore[list-item]


TRACKING = """
class Console:
    def __init__(self):
        self.lines = []

    def log(self, data, step):
        self.lines.append((step, data))


class Tracking:
    supported_backend = ["wandb", "console"]

    def __init__(self, project_name, experiment_name, default_backend="console", config=None):
        backends = [default_backend] if isinstance(default_backend, str) else default_backend
        for backend in backends:
            assert backend in ("wandb", "console"), f"{backend} is not supported"
        self._finished = False
        self.exit_codes = []
        self.logger = {name: Console() for name in backends}

    def log(self, data, step, backend=None):
        for name, logger in self.logger.items():
            if backend is None or name in backend:
                logger.log(data=data, step=step)

    def finish(self, exit_code=0):
        if self._finished:
            return
        self._finished = True
        self.exit_codes.append(exit_code)

    def __del__(self):
        self.finish()
"""
"""verl.utils.tracking of verl 0.9: checked names of backends, loggers by name, and __del__ calls finish()."""
PLUGINS = """
import importlib, os

for name in filter(None, os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(",")):
    importlib.import_module(name)
"""
"""What verl/__init__.py does with its plugins, before anything of it is used."""


def tracking_of_verl() -> Any:
    names: dict[str, Any] = {"__name__": "verl.utils.tracking"}
    exec(TRACKING, names)
    return names["Tracking"]


def test_verl_logs_to_a_backend_of_ours_beside_its_own(tmp_path: Path) -> None:
    tracking = tracking_of_verl()
    install(tracking, folder=tmp_path / "before")
    install(tracking, folder=tmp_path / "run")
    assert tracking.supported_backend == ["wandb", "console", "echoscope"]
    logger = tracking("ppo", "gsm8k", ["console", "echoscope"], {"trainer": {"total_epochs": 3}})
    logger.log(data={"critic/rewards/mean": torch.tensor(0.5), "val/table": object()}, step=7)
    assert logger.logger["console"].lines[0][0] == 7
    logger.finish(exit_code=0)
    assert logger.exit_codes == [0]
    del logger
    gc.collect()
    recorded = events(tmp_path / "run")
    assert not (tmp_path / "before").exists()
    assert (recorded["run_started"][0].title, recorded["run_started"][0].config["recorded"]) == (
        "ppo · gsm8k",
        {"trainer": {"total_epochs": 3}},
    )
    (metrics,) = recorded["metrics"]
    assert (metrics.iteration, metrics.values) == (7, {"critic/rewards/mean": 0.5, "reward/mean": 0.5})
    assert [event.reason for event in recorded["run_finished"]] == ["completed"]
    plain = tracking("ppo", "plain", "console")
    assert list(plain.logger) == ["console"]
    with pytest.raises(TypeError, match="has no list supported_backend"):
        install(SimpleNamespace)


def test_a_training_of_verl_that_fails_is_recorded_as_failed(tmp_path: Path) -> None:
    tracking = tracking_of_verl()
    install(tracking, folder=tmp_path / "run")
    logger = tracking("ppo", "gsm8k", ["echoscope"], {"trainer": {"total_training_steps": 2}})
    logger.log({"actor/entropy": 0.5}, step=2)
    logger.finish(exit_code=1)
    assert logger.exit_codes == [1]
    del logger
    gc.collect()
    (finished,) = events(tmp_path / "run")["run_finished"]
    assert (finished.reason, finished.message) == ("error", "The training of verl failed (exit code 1).")


@pytest.mark.parametrize(
    ("config", "reason", "message"),
    [
        ({"trainer": {"total_training_steps": 7}}, "completed", "The run is complete."),
        (
            {"trainer": {"total_training_steps": 9}},
            "interrupted",
            "The trainer ended after step 7 of 9 and did not report whether it had succeeded.",
        ),
        (
            {"trainer": {}, "actor_rollout_ref": {"actor": {"optim": {"total_training_steps": 7}}}},
            "completed",
            "The run is complete.",
        ),
        (
            None,
            "interrupted",
            "The trainer ended after step 7 and did not report whether it had succeeded.",
        ),
    ],
)
def test_a_training_of_verl_without_an_end_is_complete_only_after_its_last_step(
    config: dict[str, Any] | None, reason: str, message: str, tmp_path: Path
) -> None:
    tracking = tracking_of_verl()
    install(tracking, folder=tmp_path / "run")
    logger = tracking("ppo", "gsm8k", ["echoscope"], config)
    logger.log({"actor/entropy": 0.5}, step=7)
    del logger
    gc.collect()
    (finished,) = events(tmp_path / "run")["run_finished"]
    assert (finished.reason, finished.message) == (reason, message)


def test_the_plugin_adds_the_backend_in_processes_of_verl(tmp_path: Path) -> None:
    package = tmp_path / "packages" / "verl"
    (package / "utils").mkdir(parents=True)
    (package / "__init__.py").write_text(PLUGINS)
    (package / "utils" / "__init__.py").touch()
    (package / "utils" / "tracking.py").write_text(TRACKING)
    trainer = (
        "from verl.utils.tracking import Tracking\n"
        "logger = Tracking('ppo', 'gsm8k', ['console', 'echoscope'], {'trainer': {}})\n"
        "logger.log({'actor/entropy': 0.5}, step=1)\n"
        "logger.finish()\n"
    )
    variables = {
        "PYTHONPATH": os.pathsep.join([str(package.parent), str(Path(echoscope.__file__).parents[1])]),
        "VERL_USE_EXTERNAL_MODULES": "echoscope.integrations.verl_plugin",
        "ECHOSCOPE_FOLDER": str(tmp_path / "run"),
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ECHOSCOPE_")}
    subprocess.run([sys.executable, "-c", trainer], env={**kept, **variables}, cwd=tmp_path, check=True)
    recorded = events(tmp_path / "run")
    assert [event.title for event in recorded["run_started"]] == ["ppo · gsm8k"]
    assert [event.reason for event in recorded["run_finished"]] == ["completed"]


def test_rollouts_of_verifiers_are_recorded_by_a_monitor_of_prime_rl(tmp_path: Path) -> None:
    monitor = EchoscopeMonitor(echoscope.init("Wordle", folder=tmp_path))
    question = [{"role": "user", "content": "Guess."}]
    rollouts = [
        {
            "example_id": 4,
            "task": "wordle",
            "prompt": question,
            "completion": text,
            "reward": reward,
            "info": {"word": "x"},
        }
        for text, reward in (([{"role": "assistant", "content": "crane"}], 1.0), ("cloud", 0.2))
    ]
    monitor.log({"reward/all/mean": 0.6, "step": 3})
    monitor.log_samples(rollouts, step=3)
    monitor.log_eval_samples(rollouts, "wordle-hard", step=3)
    monitor.log_distributions({"reward": [1.0]}, step=3)
    monitor.close()
    recorded = events(tmp_path)
    assert [(group.split, group.environment, len(group.members)) for group in recorded["group_started"]] == [
        ("train", "wordle", 2),
        ("eval", "wordle", 2),
    ]
    assert [turn.response for turn in recorded["turn"]] == ["crane", "cloud"] * 2
    assert recorded["trajectory_finished"][0].extra["record"]["info"] == {"word": "x"}
    (evaluation,) = recorded["evaluation"]
    assert (evaluation.suite, evaluation.success, evaluation.samples) == ("wordle-hard", 0.5, 2)
    logged, sampled = recorded["metrics"]
    assert (logged.iteration, logged.values) == (3, {"reward/all/mean": 0.6, "reward/mean": 0.6})
    assert sampled.values == pytest.approx({"reward/mean": 0.6, "reward/in_group_std": 0.4, "success/rate": 0.5})


def test_rollouts_without_messages_are_refused_and_those_without_a_reward_have_none(tmp_path: Path) -> None:
    monitor = EchoscopeMonitor(echoscope.init("Wordle", folder=tmp_path))
    good = {"prompt": "Guess.", "completion": "crane"}
    with pytest.warns(RuntimeWarning, match="the rollout has no messages: its fields are reward, answer"):
        monitor.log_samples([{"reward": 1.0, "answer": "crane"}], step=1)
    with pytest.warns(RuntimeWarning, match="a rollout is of type int: pass traces of verifiers or mappings"):
        monitor.log_samples([3], step=1)
    assert "group_started" not in events(tmp_path)
    monitor.log_samples([good], step=2)
    monitor.save_final_summary("final_summary.json", True, None)
    monitor.close()
    recorded = events(tmp_path)
    (end,) = recorded["trajectory_finished"]
    assert (end.total_reward, end.success, end.turns) == (None, None, 1)
    assert "metrics" not in recorded
    assert recorded["run_finished"][0].reason == "completed"


def test_the_recorder_alone_imports_no_library_of_a_trainer() -> None:
    code = (
        "import sys, echoscope, echoscope.cli\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(names & {'torch', 'transformers', 'numpy', 'pyarrow', 'trl', 'verl', 'envs', 'trainer'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_object_of_settings_is_recorded_as_text(tmp_path: Path) -> None:
    echoscope.init("Objects", folder=tmp_path, config={"scheduler": SimpleNamespace(warmup=3)})
    assert events(tmp_path)["run_started"][0].config["recorded"] == {"scheduler": "namespace(warmup=3)"}
