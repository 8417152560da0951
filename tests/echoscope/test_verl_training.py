"""Trainings of verl's own trainers, with scripted workers in the place of models, are recorded with tokens and phases.

They run where verl is installed, without CUDA: verl, TransferQueue, tensordict, hydra-core and what these import.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy
import pytest
import torch

from echoscope.integrations.verl_tracking import install
from tests.echoscope.recording.caught_warnings import caught_warnings
from tests.echoscope.test_integrations import events
from trainer.journal import token_arrays
from trainer.paths import shipped_folder

ray_trainer = pytest.importorskip("verl.trainer.ppo.ray_trainer", reason="verl is not installed")
PROMPTS, ATTEMPTS, STEPS = 2, 2, 2
TOOL = "\nThe box is left of you.\n"
BEFORE, AFTER = 48, 64


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(shipped_folder("general")))


@pytest.fixture
def tracking() -> Iterator[Any]:
    kind = importlib.import_module("verl.utils.tracking").Tracking
    names = ("__init__", "finish", "__del__", "supported_backend")
    before = {name: vars(kind)[name] for name in names if name in vars(kind)}
    yield kind
    for name, value in before.items():
        setattr(kind, name, value)


def settings(folder: Path, *changes: str) -> Any:
    """verl's own configuration, of a GRPO training with short responses."""
    hydra, datasets = importlib.import_module("hydra"), importlib.import_module("datasets")
    rooms = datasets.Dataset.from_list(
        [
            {
                "prompt": [{"role": "user", "content": f"Room {number}."}],
                "data_source": "rooms",
                "reward_model": {"ground_truth": str(number)},
                "extra_info": {"index": number},
            }
            for number in range(12)
        ]
    )
    rooms.to_parquet(str(folder / "rooms.parquet"))
    chosen = {
        "data.train_files": f"[{folder}/rooms.parquet]",
        "data.val_files": f"[{folder}/rooms.parquet]",
        "data.train_batch_size": PROMPTS,
        "data.val_batch_size": PROMPTS,
        "data.max_response_length": AFTER,
        "data.dataloader_num_workers": 0,
        "data.filter_overlong_prompts": False,
        "data.shuffle": False,
        "actor_rollout_ref.model.path": shipped_folder("general"),
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.n": ATTEMPTS,
        "actor_rollout_ref.rollout.calculate_log_probs": True,
        "actor_rollout_ref.actor.ppo_mini_batch_size": PROMPTS,
        "algorithm.adv_estimator": "grpo",
        "trainer.logger": "[echoscope]",
        "trainer.n_gpus_per_node": 1,
        "trainer.total_training_steps": STEPS,
        "trainer.val_before_train": False,
        "trainer.save_freq": -1,
        "trainer.test_freq": -1,
        "trainer.resume_mode": "disable",
        "trainer.device": "cpu",
    }
    overrides = [f"{name}={value}" for name, value in chosen.items()]
    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        return hydra.compose("ppo_trainer", overrides=[*overrides, *changes])


def play(tokenizer: Any, prompt: Any, session: int, wins: bool) -> dict[str, Any]:
    """Two turns with the answer of a tool between. The first attempt at a prompt may win, the others do not."""
    parts = [f"<think>look {session}</think>", TOOL, "<answer>Left</answer>"]
    first, tool, last = (tokenizer.encode(part, add_special_tokens=False) for part in parts)
    last.append(tokenizer.eos_token_id)
    mask = [1] * len(first) + [0] * len(tool) + [1] * len(last)
    ids = tokenizer.apply_chat_template(list(prompt), add_generation_prompt=True, return_dict=False)
    score = float(wins and session == 0)
    return {"prompt": ids, "response": [*first, *tool, *last], "mask": mask, "score": score}


def padded(rows: list[list[Any]], width: int, *, left: bool = False) -> torch.Tensor:
    blanks = [[0] * (width - len(row)) for row in rows]
    return torch.tensor([[*blank, *row] if left else [*row, *blank] for row, blank in zip(rows, blanks, strict=True)])


def objects(values: list[Any]) -> Any:
    array = numpy.empty(len(values), dtype=object)
    array[:] = values
    return array


def checked(folder: Path) -> dict[str, list[Any]]:
    """The events of a run, with what both trainers have in common checked."""
    recorded = events(folder)
    assert {group.environment for group in recorded["group_started"]} == {"rooms"}
    turns = [turn for turn in recorded["turn"] if turn.trajectory == recorded["group_started"][0].members[0]]
    assert (turns[0].thought, turns[1].response) == ("look 0", "<answer>Left</answer>")
    assert turns[1].state.strip() == TOOL.strip()
    assert {end.extra["record"]["ground_truth"] for end in recorded["trajectory_finished"]} >= {"0", "1"}
    laps = {lap.iteration: [list(span.work) for span in lap.tracks["trainer"]] for lap in recorded["timeline"]}
    assert laps.keys() == {1, 2}
    assert all(kinds[0] == ["rollout"] for kinds in laps.values())
    assert all({"old", "update", "weights"} <= {kind for kinds in lap for kind in kinds} for lap in laps.values())
    values = {
        name: value for event in recorded["metrics"] if event.iteration == 1 for name, value in event.values.items()
    }
    assert {"reward/mean", "reward/in_group_std", "success/rate", "policy/grad_norm"} <= values.keys()
    assert values["reward/mean"] == pytest.approx(values["success/rate"])
    assert recorded["run_finished"][0].reason == "completed"
    for event in recorded["trajectory_tokens"]:
        tokens = token_arrays.unpack(event.data)
        assert tokens.context is not None
        assert [segment.sampled for segment in tokens.context.segments] == [False, True, False, True]
    return recorded


def test_the_trainer_of_padded_batches_is_recorded(tmp_path: Path, tokenizer: Any, tracking: Any) -> None:
    proto = importlib.import_module("verl").DataProto
    tensors_of = importlib.import_module("tensordict").TensorDict

    class Workers:
        """The processes that sample and learn."""

        def generate_sequences(self, batch: Any) -> Any:
            prompts = batch.non_tensor_batch["raw_prompt"]
            played = [play(tokenizer, prompt, at % ATTEMPTS, wins=at < ATTEMPTS) for at, prompt in enumerate(prompts)]
            prompt = padded([row["prompt"] for row in played], BEFORE, left=True)
            response = padded([row["response"] for row in played], AFTER)
            mask = padded([row["mask"] for row in played], AFTER)
            real = torch.cat(
                [
                    padded([[1] * len(row["prompt"]) for row in played], BEFORE, left=True),
                    padded([[1] * len(row["response"]) for row in played], AFTER),
                ],
                dim=1,
            )
            tensors = {
                "prompts": prompt,
                "responses": response,
                "input_ids": torch.cat([prompt, response], dim=1),
                "attention_mask": real,
                "position_ids": (real.cumsum(1) - 1).clamp(min=0),
                "response_mask": mask,
                "rollout_log_probs": -0.5 * mask,
                "rm_scores": padded([[0.0] * (len(row["response"]) - 1) + [row["score"]] for row in played], AFTER),
            }
            judged = {"acc": objects([row["score"] for row in played])}
            others = {"multi_modal_inputs": objects([{} for _ in played])}
            return proto(
                tensors_of(tensors, batch_size=len(played)),
                {**judged, **others},
                {"timing": {}, "reward_extra_keys": ["acc"]},
            )

    class Trainer(ray_trainer.RayPPOTrainer):  # type: ignore[misc, name-defined]
        def __init__(self, config: Any) -> None:
            self.tokenizer, self.processor, self.config = tokenizer, None, config
            self.use_reference_policy = self.use_critic = self.use_rm = False
            self.async_rollout_manager = self.actor_rollout_wg = Workers()
            self.resource_pool_manager = SimpleNamespace(get_n_gpus=lambda: 1)
            self.checkpoint_manager = SimpleNamespace(update_weights=lambda *_: None, sleep_replicas=lambda: None)
            self._create_dataloader(None, None, None, None)
            self._init_dump_executor()

        def _load_checkpoint(self) -> None:
            pass

        def _compute_old_log_prob(self, batch: Any) -> Any:
            logprobs = batch.batch["rollout_log_probs"] - 0.25 * batch.batch["response_mask"]
            return proto.from_single_dict({"old_log_probs": logprobs, "entropys": torch.ones_like(logprobs)}), 0.5

        def _update_actor(self, batch: Any) -> Any:
            return proto.from_single_dict(data={}, meta_info={"metrics": {"actor/grad_norm": [0.5]}})

    install(tracking, folder=tmp_path / "run")
    config = settings(tmp_path, "++trainer.use_v1=False", "trainer.balance_batch=False")
    with caught_warnings() as messages:
        Trainer(config).fit()
    assert not messages
    recorded = checked(tmp_path / "run")
    assert [event.counts for event in recorded["attempts_used"]] == [{"trained": 2, "equal_rewards": 2}] * STEPS
    won = next(end.trajectory for end in recorded["trajectory_finished"] if end.success)
    (event,) = [event for event in recorded["trajectory_tokens"] if event.trajectory == won]
    tokens = token_arrays.unpack(event.data)
    assert (event.mismatch, event.wrong) == (pytest.approx(0.25), False)
    assert tokens.advantages is not None
    assert tokens.advantages[0] == pytest.approx(0.707, abs=0.01)
    assert tokens.context is not None
    assert [segment.in_loss for segment in tokens.context.segments] == [False, True, False, True]


def test_the_trainer_of_the_transfer_queue_is_recorded(tmp_path: Path, tokenizer: Any, tracking: Any) -> None:
    ray = pytest.importorskip("ray")
    queue = pytest.importorskip("transfer_queue", reason="TransferQueue is not installed")
    sync_trainer = importlib.import_module("verl.trainer.ppo.v1.trainer_sync")
    agent_loop = importlib.import_module("verl.experimental.agent_loop")
    dicts = importlib.import_module("verl.utils.tensordict_utils")

    class AgentLoops:
        """Plays prompts of the queue. All attempts at every other prompt are alike, so that the trainer drops them."""

        prompts = 0

        def generate_sequences(self, batch: Any) -> None:
            for row in range(len(batch)):
                fields = {name: values[row] for name, values in batch.items() if name != "global_steps"}
                facts = {name: getattr(value, "data", value) for name, value in fields.items()}
                self._play(facts, int(batch["global_steps"]))

        def _play(self, facts: dict[str, Any], step: int) -> None:
            self.prompts += 1
            for session in range(ATTEMPTS):
                row = play(tokenizer, facts["raw_prompt"], session, wins=self.prompts % 2 == 1)
                output = agent_loop.AgentLoopOutput(
                    prompt_ids=row["prompt"],
                    response_ids=row["response"],
                    response_mask=row["mask"],
                    response_logprobs=[-0.5 * flag for flag in row["mask"]],
                    reward_score=row["score"],
                    num_turns=4,
                    metrics={},
                    extra_fields={"reward_extra_info": {"acc": row["score"]}},
                ).as_dict()
                output["loss_mask"] = output["response_mask"]
                output["input_ids"] = torch.cat([output["prompts"], output["responses"]])
                lengths = {"prompt_len": len(row["prompt"]), "response_len": len(row["response"])}
                versions = {"global_steps": step, "min_global_steps": step - 1, "max_global_steps": step - 1}
                tag = {"status": "success", **lengths, "seq_len": sum(lengths.values()), **versions}
                queue.kv_batch_put(
                    keys=[f"{facts['uid']}_{session}_0"],
                    partition_id="train",
                    fields=dicts.list_of_dict_to_tensordict([{**output, **facts}]),
                    tags=[tag],
                )
            queue.kv_put(key=facts["uid"], partition_id="train", tag={"status": "finished"})

    class Workers:
        _dispatch_info: ClassVar[dict[str, list[int]]] = {"actor": [0]}

        def compute_log_prob(self, batch: Any) -> Any:
            data = queue.kv_batch_get(batch.keys, batch.partition_id, ["input_ids"])
            lengths = [len(row) for row in data["input_ids"].unbind()]
            fields = [{"log_probs": torch.full((size,), -0.75), "entropy": torch.ones(size)} for size in lengths]
            queue.kv_batch_put(batch.keys, batch.partition_id, fields=dicts.list_of_dict_to_tensordict(fields))
            return batch

        def update_actor(self, batch: Any) -> Any:
            return dicts.get_tensordict({}, {"metrics": {"grad_norm": [0.5], "mfu": [0.1]}})

    class Trainer(sync_trainer.PPOTrainerSync):  # type: ignore[misc, name-defined]
        def _setup(self) -> None:
            self.tokenizer, self.processor = tokenizer, None
            self._init_dataloader()
            self._init_dump_executor()
            self.actor_rollout_wg = Workers()
            self.resource_pool_manager = SimpleNamespace(get_n_gpus=lambda: 1)
            self.checkpoint_manager = SimpleNamespace(update_weights=lambda *_: None, sleep_replicas=lambda: None)
            self.reward_loop_manager = SimpleNamespace(reward_loop_worker_handles=[])
            self._load_checkpoint()

    install(tracking, folder=tmp_path / "run")
    config = settings(
        tmp_path,
        "algorithm.filter_groups.enable=True",
        "algorithm.filter_groups.metric=reward",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    )
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        queue.init(config.transfer_queue)
        trainer = Trainer(config)
        trainer.init()
        with caught_warnings() as messages:
            trainer.fit(AgentLoops())
        trainer.logger.finish(exit_code=0)
    finally:
        queue.close()
        ray.shutdown()
    assert not messages
    recorded = checked(tmp_path / "run")
    for event in recorded["attempts_used"]:
        assert event.counts.keys() >= {"trained", "resampled"}
        assert event.counts["trained"] == PROMPTS * ATTEMPTS
    unlearned = {event.unlearned for event in recorded["trajectory_tokens"]}
    assert unlearned == {None, "not_sent"}
