"""A training of TRL's own GRPO trainer, with the shipped pocket policy, is recorded with what the live page draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from echoscope.integrations.trl_rewards import EchoscopeRewards
from trainer.journal import token_arrays
from trainer.journal.events import AnyEvent
from trainer.journal.reader import read
from trainer.paths import shipped_folder


def test_a_run_of_the_real_grpo_trainer_has_the_curves_of_the_live_page(tmp_path: Path) -> None:
    from datasets import Dataset  # here, since importing them takes every test process seconds
    from trl import GRPOConfig, GRPOTrainer

    def one_answer(completions: list[Any], **columns: Any) -> list[float]:
        return [float(completion[0]["content"].count("<answer>") == 1) for completion in completions]

    data = Dataset.from_list([{"prompt": [{"role": "user", "content": f"Room {n}."}], "room": n} for n in range(8)])
    rewards = EchoscopeRewards(one_answer, folder=tmp_path / "run", environment="Rooms")
    settings = GRPOConfig(
        output_dir=str(tmp_path / "out"),
        max_steps=2,
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=24,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=2,
        eval_on_start=True,
        use_cpu=True,
        bf16=False,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=str(shipped_folder("general")),
        reward_funcs=rewards.functions,
        args=settings,
        train_dataset=data,
        eval_dataset=data.select(range(2)),
        callbacks=[rewards.callback],
    )
    batches = []
    prepare = trainer._generate_and_score_completions
    trainer._generate_and_score_completions = lambda *args: batches.append(prepare(*args)) or batches[-1]
    rewards.watch_tokens(trainer)
    trainer.train()
    recorded: dict[str, list[Any]] = {}
    event: AnyEvent
    for event in read(tmp_path / "run" / "journal.jsonl"):
        recorded.setdefault(event.type, []).append(event)
    trained = [group for group in recorded["group_started"] if group.split == "train"]
    assert [(group.iteration, len(group.members)) for group in trained] == [(1, 4), (1, 4), (2, 4), (2, 4)]
    assert [(result.iteration, result.prompts, result.samples) for result in recorded["evaluation"]] == [
        (0, 2, 4),
        (2, 2, 4),
    ]
    live = {"reward/mean", "reward/in_group_std", "success/rate", "entropy/mean", "policy/grad_norm"}
    for iteration in (1, 2):
        values = {
            name: value
            for event in recorded["metrics"]
            if event.iteration == iteration
            for name, value in event.values.items()
        }
        assert live | {"grad_norm", "reward_std"} <= set(values)
        assert values["reward/mean"] == pytest.approx(values["reward"]) == pytest.approx(values["success/rate"])
        members = {key for group in trained if group.iteration == iteration for key in group.members}
        ends = [end.end for end in recorded["trajectory_finished"] if end.trajectory in members]
        assert ends.count("truncated") / len(ends) == pytest.approx(values["completions/clipped_ratio"])
    assert len(recorded["trajectory_tokens"]) == len(recorded["trajectory_finished"])
    rows = iter([(batch, row) for batch in batches for row in range(len(batch["prompt_ids"]))])
    for event, (batch, row) in zip(recorded["trajectory_tokens"], rows, strict=True):
        tokens = token_arrays.unpack(event.data)
        assert tokens.context is not None
        assert tokens.advantages is not None
        assert tokens.context.ids.tolist() == batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()
        completion = batch["completion_ids"][row][batch["completion_mask"][row].bool()].tolist()
        assert tokens.ids.tolist() == completion
        assert [segment.in_loss for segment in tokens.context.segments] == [False, True]
        assert tokens.advantages[0] == pytest.approx(float(batch["advantages"][row]), abs=1e-3)
        assert "<|im_start|>" in (tokens.context.text or "")
    laps = {
        lap.iteration: [kind for span in lap.tracks["trainer"] for kind in span.work if span.seconds > 0.01]
        for lap in recorded["timeline"]
    }
    assert laps == {1: ["rollout", "update"], 2: ["rollout", "update"]}, "besides the moments before a rollout begins"
    records = [end.extra["record"]["room"] for end in recorded["trajectory_finished"]]
    assert set(records) <= set(range(8))
    assert len(records) == 32
