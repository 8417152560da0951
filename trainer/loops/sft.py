"""The SFT baseline: runs that imitate a solver's play, one step of the optimiser in each iteration.

How a solver's play is put into words stands in demonstrations.py; the warm-up of the pocket policy is warmup.py's.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np
import torch
from torch import Tensor

from trainer.config.run import RunConfig
from trainer.distributed.group import ProcessGroup, collective
from trainer.imitation.demonstration_files import NoSolverError
from trainer.imitation.demonstrations import Demonstration, demonstrate
from trainer.journal.events import RunFinished
from trainer.learner.learner import POLICY, Learner
from trainer.loops.train import TrainRun
from trainer.policy import lora_adapters
from trainer.policy.chat_format import ChatFormat
from trainer.policy.forward import hidden_before
from trainer.policy.load import Policy, output_head
from trainer.policy.packing.layout import PackedBatch
from trainer.policy.token_logprobs import chunk_size
from trainer.rollout.environment_mix import shares_of
from trainer.rollout.runner import Interrupted
from trainer.rollout.trajectory import Batch, Trajectory, collate
from trainer.seeds import Purpose, derive

_PATIENCE = 100  # starts without a demonstration worth showing before the first one
_WASTE = 50  # and further ones for each that was found


def fit_demonstrations(demonstration: Demonstration, config: RunConfig) -> bool:
    """Whether a demonstration is worth imitating: there is one, not too long, and successful if that is asked for."""
    trajectory = demonstration.trajectory
    if not trajectory.turns:
        return False
    hint = trajectory.turns[0].hint
    distance = hint.distance if hint is not None else None
    short = distance is None or distance <= config.sft.max_solution_length
    return short and (trajectory.success or not config.sft.only_successes)


def demonstrations(config: RunConfig, chat: ChatFormat, context: int) -> Iterator[Trajectory]:
    """Endless plain solver play in the environments of the run, in their shares; the n-th is always the same.

    Raises:
        NoSolverError: too many starts have nothing to show.
    """
    tasks = shares_of(config)
    ends = np.cumsum([task.share for task in tasks])
    found = 0
    for number in count():
        seed = derive(config.seed, Purpose.DEMONSTRATION, number)
        place = np.random.default_rng(seed).random() * ends[-1]
        task = tasks[min(int(np.searchsorted(ends, place, side="right")), len(tasks) - 1)]
        shown = demonstrate(task.config, chat, seed, noise=0.0, slip_share=0.0, context=context)
        if fit_demonstrations(shown, task.config):
            found += 1
            yield shown.trajectory
        elif number >= _PATIENCE + _WASTE * found:
            raise NoSolverError(
                f"{config.environment.name} gives too few demonstrations: {found} of {number + 1} starts had a "
                f"solution of at most {config.sft.max_solution_length} actions"
                + (" that succeeded" if config.sft.only_successes else "")
            )


class Imitator(Learner):
    """A learner without critic and advantages: cross-entropy of the responses that a solver's play is told in."""

    def __init__(self, config: RunConfig, policy: Policy, team: ProcessGroup | None = None) -> None:
        super().__init__(_for_imitation(config), policy, team=team)

    @collective
    def imitate(self, batch: Batch, seed: int) -> dict[str, float]:
        """One step of the optimiser on a batch of demonstrations. Returns its metrics."""
        own = self.oom_retry.run(lambda tokens: self._imitated(batch, seed))
        sums = self.team.total({"sft/loss": own})
        self.trainable[POLICY].step(self.team, "sft/grad_norm", sums)
        self.trainable[POLICY].weights.finish()
        sums["sft/learning_rate"] = self.config.optimizer.policy_lr
        return {name: value for name, value in sums.items() if abs(value) < float("inf")}

    def _imitated(self, batch: Batch, seed: int) -> float:
        """Add up the gradients of this process's share. Returns its share of the loss."""
        self.zero_grad()
        own, tokens = 0.0, int(batch.mask.sum())
        with lora_adapters.seeded_dropout(seed + self.team.rank, self.policy.model):
            for _, piece, packed in self.micro_batches(batch):
                loss = -self.network(piece.ids, piece.mask, 1.0, packed)[0].sum() / tokens
                loss.backward()
                own += float(loss.detach())
        return own

    @collective
    @torch.no_grad()
    def measure(self, batch: Batch) -> dict[str, float]:
        """What the policy makes of demonstrations that it does not learn from."""
        own = {"loss": 0.0, "right": 0.0}
        tokens = int(batch.mask.sum())
        for _, piece, packed in self.micro_batches(batch):
            for logits, targets in self._predicted(piece, packed):
                own["loss"] += float(torch.nn.functional.cross_entropy(logits, targets, reduction="sum"))
                own["right"] += float((logits.argmax(-1) == targets).sum())
        whole = self.team.total(own)
        return {"sft/heldout_loss": whole["loss"] / tokens, "sft/heldout_accuracy": whole["right"] / tokens}

    def _predicted(self, piece: Batch, packed: PackedBatch | None) -> Iterator[tuple[Tensor, Tensor]]:
        """(m, vocabulary) logits and (m,) ids of the piece's response tokens, a stretch of them at a time."""
        hidden, head = hidden_before(self.policy.model, piece.ids, piece.mask, packed), output_head(self.policy.model)
        most = chunk_size(self.policy.model.config.get_text_config().vocab_size)
        stretches = torch.split(hidden, most), torch.split(piece.ids[piece.mask], most)
        for part, ids in zip(*stretches, strict=True):
            yield head(part).float(), ids


def _for_imitation(config: RunConfig) -> RunConfig:
    """The run's settings as the learner reads them: the baseline's own learning rate, and no critic."""
    return config.model_copy(
        update={
            "optimizer": config.optimizer.model_copy(update={"policy_lr": config.sft.learning_rate}),
            "algorithm": config.algorithm.model_copy(update={"estimator": "grpo"}),
        }
    )


class SftRun(TrainRun):
    """A run that imitates. Evaluation, checkpoints, stopping and going on are those of every run."""

    learner: Imitator

    def _prepare_learning(self, saved: list[int]) -> None:
        settings = self.config.sft
        shown = self._watch_solver(settings.validation_demonstrations + settings.demonstrations)
        # The first ones are held out, so that asking for more demonstrations leaves the measure as it is.
        held_out, self.lessons = (
            shown[: settings.validation_demonstrations],
            shown[settings.validation_demonstrations :],
        )
        self.held_out = collate(held_out, self.policy.pad_id) if held_out else None
        self.learner = Imitator(self.config, self.policy, self.team)
        if saved:
            self._take_up(saved[-1])

    def _watch_solver(self, number: int) -> list[Trajectory]:
        found: list[Trajectory] = []
        for trajectory in demonstrations(self.config, self.chat, self.policy.context):
            found.append(trajectory)
            self.reporter.phase("warmup", len(found), number, unit="demonstrations")
            if self.stop():
                raise Interrupted
            if len(found) == number:
                break
        return found

    def _loop(self) -> RunFinished | None:
        if self.progress.iteration == 0 and self.held_out is not None:
            self.journal.write(self.reporter.metrics(self.learner.measure(self.held_out)))
        return super()._loop()

    def _iterate(self, iteration: int) -> bool:
        """One step on the next batch of demonstrations; each passes once before any comes again."""
        size, total = self.config.sft.batch, len(self.lessons)
        steps = -(-total // size)
        epoch, step = divmod(iteration - 1, steps)
        generator = torch.Generator().manual_seed(derive(self.config.seed, Purpose.UPDATE, epoch))
        order = torch.randperm(total, generator=generator)[step * size : (step + 1) * size]
        with self.laps.part("update"):
            self.reporter.phase("update", step, steps, unit="steps", iteration=iteration)
            batch = collate([self.lessons[number] for number in order], self.policy.pad_id)
            seed = derive(self.config.seed, Purpose.UPDATE, epoch, step)
            values = self.learner.imitate(batch, seed)
            self.player.sampler.weights_updated()
            if self.held_out is not None and (step + 1 == steps or iteration == self.config.iterations):
                values |= self.learner.measure(self.held_out)
        self.progress.iteration = iteration
        self.progress.tokens += int(batch.mask.sum())
        values |= self.laps.finish()
        values["sft/epoch"] = iteration / steps
        self.reporter.tick()
        self.journal.write(self.reporter.metrics(values))
        return False
