"""Cross-entropy steps on demonstrations, and the loss on held-out demonstrations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from trainer.config.run import RunConfig
from trainer.distributed.group import ProcessGroup, SingleProcess
from trainer.learner.learner import POLICY, Learner
from trainer.learner.micro_batch_plan import MicroBatchPlan
from trainer.learner.update_meter import STEP_COST, UpdateReport
from trainer.policy.forward import hidden_before
from trainer.policy.head.token_logprobs import chunk_size
from trainer.policy.load import Policy, output_head
from trainer.policy.packing.layout import PackedBatch
from trainer.policy.weights import VersionedWeights
from trainer.rollout.trajectory import Batch


class Imitator:
    """Imitates demonstrations with the weights, optimiser and micro-batches of a learner that has no critic.

    Attributes:
        learner: contains the state that a checkpoint saves.
    """

    def __init__(self, config: RunConfig, policy: Policy, group: ProcessGroup | None = None) -> None:
        self.group: ProcessGroup = group or SingleProcess()
        self.config, self.policy = _imitation_settings(config), policy
        self.learner = Learner(self.config, policy, None, group)

    def imitate(self, batch: Batch, lr_factor: float = 1.0) -> dict[str, float]:
        """Take one optimiser step on a batch of demonstrations, with this share of the learning rate.

        Returns its metrics.
        """
        learner = self.learner
        plan = learner.planner.plan(batch)
        learner.meter.begin(STEP_COST * len(batch), passes=1)
        learner.meter.begin_pass([plan])
        loss = learner.oom_retry.run(lambda tokens: self._gradients(plan, tokens))
        metrics = self.group.sum_by_name({"sft/loss": loss})
        trained = learner.trainable[POLICY]
        metrics["sft/learning_rate"] = trained.schedule(lr_factor)
        trained.step(self.group, "sft/grad_norm", metrics)
        trained.weights.finish()
        learner.version += 1
        return {name: value for name, value in metrics.items() if math.isfinite(value)}

    def _gradients(self, plan: MicroBatchPlan, max_tokens: int) -> float:
        """Compute the gradients of this process's share, from scratch. Returns its share of the loss."""
        self.learner.zero_grad()
        losses, share, tokens = [], 0.0, int(plan.batch.mask.sum())
        for _, piece, packed in self.learner.meter.watch(plan, max_tokens, "step", STEP_COST):
            loss = -self.learner.network(piece.ids, piece.mask, 1.0, packed)[0].sum() / tokens
            loss.backward()
            losses.append(loss.detach())
        for loss in losses:  # read only now, as reading waits for the GPU
            share += float(loss)
        return share

    @torch.no_grad()
    def measure(self, batch: Batch) -> dict[str, float]:
        """Measure loss and token accuracy on held-out demonstrations."""
        sums = {"loss": 0.0, "correct": 0.0}
        tokens = int(batch.mask.sum())
        for _, piece, packed in self.learner.micro_batches(batch):
            for logits, targets in self._predictions(piece, packed):
                sums["loss"] += float(torch.nn.functional.cross_entropy(logits, targets, reduction="sum"))
                sums["correct"] += float((logits.argmax(-1) == targets).sum())
        totals = self.group.sum_by_name(sums)
        return {"sft/heldout_loss": totals["loss"] / tokens, "sft/heldout_accuracy": totals["correct"] / tokens}

    def _predictions(self, piece: Batch, packed: PackedBatch | None) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (m, vocabulary) logits and (m,) ids of the piece's response tokens, in chunks of tokens."""
        model = self.policy.model
        hidden, head = hidden_before(model, piece.ids, piece.mask, packed), output_head(model)
        size = chunk_size(model.config.get_text_config().vocab_size)
        chunks = torch.split(hidden, size), torch.split(piece.ids[piece.mask], size)
        for states, ids in zip(*chunks, strict=True):
            yield head(states).float(), ids

    # -- as the group of a run's driver, see `trainer.learner.groups.learner_group.ImitatorGroup` --------------------

    def report_to(self, progress: Callable[[UpdateReport], None] | None = None) -> None:
        self.learner.report_to(progress)

    def notify_with(self, notify: Callable[[str], None]) -> None:
        self.learner.notify_with(notify)

    @property
    def version(self) -> int:
        return self.learner.version

    def weights(self) -> VersionedWeights:
        return self.learner.weights()

    def save(self, folder: Path) -> None:
        self.learner.save(folder)

    def load(self, folder: Path) -> list[str]:
        return self.learner.load(folder)

    def close(self) -> None:
        self.learner.close()


def _imitation_settings(config: RunConfig) -> RunConfig:
    """Return the run's settings for a learner without critic, with the learning rate of imitation."""
    return config.model_copy(
        update={
            "optimizer": config.optimizer.model_copy(update={"policy_lr": config.sft.learning_rate}),
            "algorithm": config.algorithm.model_copy(update={"estimator": "grpo"}),
        }
    )
