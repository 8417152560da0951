"""Policy and critic updates in four phases: plan, score, estimate, step.

Sequences are right-padded and attention is causal, so padding needs no mask. With several processes each process
computes its share of the rows; sums over micro-batches are then also summed over processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trainer.config.run import RunConfig
from trainer.config.update_variants import update_variants
from trainer.diagnostics.compute import mismatch_metrics
from trainer.distributed import fsdp
from trainer.distributed.group import ProcessGroup, SingleProcess
from trainer.journal.protocol import ADAPTER_FOLDER, LEARNER_STATE
from trainer.learner import optimizers
from trainer.learner.advantage_estimation import estimate_update
from trainer.learner.learnt_tokens import LearntTokens, TokenLedger
from trainer.learner.micro_batch_plan import MicroBatch, MicroBatchPlan, Planner, plan_passes
from trainer.learner.micro_batches import token_limit
from trainer.learner.mutual_information import cross_scores
from trainer.learner.scoring import Scorer
from trainer.learner.step_losses import StepGradients, StepLosses
from trainer.learner.step_metrics import StepMetrics
from trainer.learner.trainable_module import TrainableModule, trainable_critic, trainable_policy
from trainer.learner.update_batch import TokenLogprobs
from trainer.learner.update_meter import STEP_COST, UpdateMeter, UpdateReport
from trainer.memory.oom import OomRetry
from trainer.policy import lora_adapters
from trainer.policy.critic import Critic
from trainer.policy.load import ModelError, Policy
from trainer.policy.packing import attention
from trainer.policy.weights import VersionedWeights
from trainer.rollout.trajectory import Batch

POLICY, CRITIC = "policy", "critic"


class Learner:
    """The policy in training, the critic if the estimator needs one, and the initial policy if it is used.

    With `lora.rank` above 0 adapters are attached to the policy and only they are trained. The critic then shares the
    frozen weights but has separate adapters, and the initial policy is the policy with its adapters switched off.

    Attributes:
        trainable: the trained modules by name: `policy` and, if there is one, `critic`.
        oom_retry: the size of micro-batches, halved once when the GPU runs out of memory.
        meter: reports the progress of each update.
        learnt: tokens of the last update's batch after it; None before the first update.
        version: number of updates by this learner.
    """

    def __init__(
        self, config: RunConfig, policy: Policy, reference: Policy | None = None, group: ProcessGroup | None = None
    ) -> None:
        self.config, self.policy, self.reference = config, policy, reference
        self.group: ProcessGroup = group or SingleProcess()
        self.device = policy.model.device
        self.adapted = config.lora.rank > 0
        settings = config.optimizer
        variants = update_variants()
        self.shares_prompts = attention.prepare_models(
            [member.model for member in (policy, reference) if member is not None],
            required=variants.packing,
            optional=variants.prefix_sharing,
        )
        self.critic = Critic(policy.model, shared=self.adapted) if config.algorithm.needs_critic else None
        if self.adapted:
            lora_adapters.attach_all(policy.model, self.critic, config.lora, config.seed)
        self.trainable: dict[str, TrainableModule] = {POLICY: trainable_policy(policy.model, settings, self.group)}
        if self.critic is not None:
            self.trainable[CRITIC] = trainable_critic(self.critic, settings, self.group)
        limit = token_limit(settings.micro_batch_tokens, self.device)
        self.oom_retry = OomRetry(limit, enabled=not self.group.sharded)
        self.planner = Planner(self.shares_prompts, variants.packing, self.group, self.device)
        self.meter = UpdateMeter()
        self.scorer = Scorer(config, policy, reference, self.critic, self.planner, self.oom_retry, self.meter)
        self.learnt: LearntTokens | None = None
        self.version = 0

    @property
    def network(self) -> nn.Module:
        """The policy in training: a `PolicyForward`."""
        return self.trainable[POLICY].module

    def micro_batches(self, batch: Batch) -> Iterator[MicroBatch]:
        """Yield this process's micro-batches of a batch, of the current size."""
        return self.planner.plan(batch).micro_batches(self.oom_retry.tokens)

    def score(self, batch: Batch, policy: Policy | None = None) -> TokenLogprobs:
        """Score log-probabilities and entropies of a batch's sampled tokens under a policy (default: the current)."""
        return self.scorer.score(self.planner.plan(batch), policy or self.policy)

    def values(self, batch: Batch) -> Tensor:
        """Return the critic's (B, T) values before each token; 0 in the padding."""
        return self.scorer.values(self.planner.plan(batch))

    def update(self, batch: Batch, iteration: int) -> dict[str, float]:
        """Take all optimiser steps of one iteration. Returns the metrics of the update, without NaN and infinity."""
        metrics = StepMetrics()
        factor = optimizers.lr_factor(self.config.optimizer, iteration, self.config.iterations)
        rates = {name: part.schedule(factor) for name, part in self.trainable.items()}
        metrics.set("policy/learning_rate", rates[POLICY])
        metrics.set("mismatch/loss_share", float(batch.mask.sum() / batch.attention.sum()))
        passes = self.config.algorithm.updates_per_rollout
        step_cost = self._step_cost(iteration)
        self.meter.begin(self.scorer.planned_rows(len(batch)) + passes * step_cost * len(batch), passes)
        scores = self.scorer.score_batch(self.planner.plan(batch), metrics)
        advantages, tensors = estimate_update(batch, scores, self.config.algorithm, metrics)
        ledger, first = TokenLedger(batch.mask.shape), True
        for steps in plan_passes(batch, self.config, iteration):
            plans = [self.planner.plan(batch.select(rows)) for rows in steps]
            self.meter.begin_pass(plans)
            for plan, rows in zip(plans, steps, strict=True):
                losses = StepLosses(self.config, plan.batch, tensors.select(rows, batch.mask.shape[1]))
                ledger.add(rows, self._step(plan, losses, metrics, iteration=iteration, first=first))
                first = False
        self.learnt = ledger.result(self.group, advantages, trains_policy=self._trains_policy(iteration))
        self.trainable[POLICY].weights.finish()
        self.version += 1
        return metrics.result()

    def _trains_policy(self, iteration: int) -> bool:
        return iteration > self.config.optimizer.critic_warmup

    def _step_cost(self, iteration: int) -> float:
        """Return the cost of a row in an optimiser step, in forward passes of one row."""
        return STEP_COST * (self._trains_policy(iteration) + (self.critic is not None))

    def _step(
        self, plan: MicroBatchPlan, losses: StepLosses, metrics: StepMetrics, *, iteration: int, first: bool
    ) -> StepGradients:
        """Take one optimiser step of policy and critic. Returns this process's share of it."""
        batch, trains_policy = plan.batch, self._trains_policy(iteration)
        every = self.config.diagnostics.gradient_terms_every
        if first and trains_policy and self.group.rank == 0 and every and iteration % every == 0:
            self._measure_gradient_terms(batch, losses, metrics)
        phase = partial(self._gradients, plan, losses, iteration)
        gradients = self.oom_retry.run(phase)
        sums = self.group.sum_by_name(gradients.sums)
        if first and trains_policy:
            logprobs = gradients.logprobs.clone()
            self.group.all_reduce(logprobs)
            metrics.update(mismatch_metrics(logprobs, batch.sampler_logprobs, batch.mask))
        if trains_policy:
            self.trainable[POLICY].step(self.group, "policy/grad_norm", sums)
        if CRITIC in self.trainable:
            self.trainable[CRITIC].step(self.group, "value/grad_norm", sums)
        metrics.add(sums)
        return gradients

    def _gradients(self, plan: MicroBatchPlan, losses: StepLosses, iteration: int, tokens: int) -> StepGradients:
        """Compute this process's share of a step's gradients from scratch."""
        self.zero_grad()
        network = self.network if self._trains_policy(iteration) else None
        micro_batches = self.meter.watch(plan, tokens, "step", self._step_cost(iteration))
        return losses.backward(micro_batches, network, self.critic)

    def zero_grad(self) -> None:
        """Drop accumulated gradients."""
        for part in self.trainable.values():
            part.zero_grad()

    def _measure_gradient_terms(self, batch: Batch, losses: StepLosses, metrics: StepMetrics) -> None:
        """Measure norms and cosines of the loss terms' gradients over all rows in this process; accumulates nothing."""
        plan = self.planner.plan(batch, SingleProcess())

        def measure(tokens: int) -> dict[str, float]:
            micro_batches = self.meter.watch(plan, tokens, "diagnostics", cost=0.0)
            return losses.gradient_terms(self.policy.model, micro_batches)

        metrics.update(self.oom_retry.run(measure))

    def cross_scores(
        self, prompts: list[list[int]], thoughts: list[list[int]], before: int = 0, after: int = 0
    ) -> Tensor:
        """Return (N, N) ℓ_j(z_i): the log-probability of each thought after each prompt, at temperature 1.

        Args:
            before, after: thoughts of earlier and later measurements of the iteration, for progress reports.
        """
        size = self.group.size
        chosen = self.meter.prepare(range(self.group.rank, len(prompts), size), before // size, after // size)
        tokens = self.config.optimizer.micro_batch_tokens
        scores = cross_scores(self.policy, prompts, thoughts, chosen, tokens, share_prompts=self.shares_prompts)
        self.group.all_reduce(scores)
        return scores

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint apart from the policy's folder: whole tensors, even if weights are sharded.

        With adapters, the critic's adapters instead of all its weights.
        """
        weights = lora_adapters.state if self.adapted else nn.Module.state_dict
        state: dict[str, Any] = {
            "optimizer": self.config.optimizer.name,
            "adapters": lora_adapters.state(self.policy.model) if self.adapted else None,
            "critic": None if self.critic is None else weights(self.critic),
            "critic_optimizer": None,
            "critic_masters": None,
        }
        for name, part in self.trainable.items():
            state |= {f"{name}_optimizer": part.optimizer.state_dict(), f"{name}_masters": part.weights.state()}
        return fsdp.whole_state(state) if self.group.sharded else state

    def load_state(self, state: dict[str, Any]) -> list[str]:
        """Load the result of `state`. Returns warnings for the user.

        Raises:
            ModelError: the state was saved with other LoRA settings.
        """
        if self.adapted:
            lora_adapters.load_state(self.policy.model, state.get("adapters") or {})
        elif state.get("adapters"):
            raise ModelError("the checkpoint was trained with adapters: lora.rank must stay what it was")
        if self.critic is not None:
            (lora_adapters.load_state if self.adapted else fsdp.load_module)(self.critic, state["critic"])
        name = self.config.optimizer.name
        resumes = optimizers.has_same_state(name, state)
        for part, trained in self.trainable.items():
            trained.weights.load_state(state.get(f"{part}_masters"))
            if resumes:
                trained.load_optimizer(state[f"{part}_optimizer"], sharded=self.group.sharded)
        saved = state.get("optimizer", "adamw")
        message = f"The checkpoint was made with optimizer.name {saved}; {name} begins without its moments."
        return [] if resumes else [message]

    # -- as the group of a run's driver, see `trainer.learner.groups.learner_group.LearnerGroup` ---------------------

    def report_to(self, progress: Callable[[UpdateReport], None] | None = None) -> None:
        self.meter.on_progress = progress or (lambda report: None)

    def notify_with(self, notify: Callable[[str], None]) -> None:
        self.oom_retry.on_retry = notify

    def weights(self) -> VersionedWeights:
        return VersionedWeights.of(self.policy.model, self.version)

    def save(self, folder: Path) -> None:
        """Write state and a transformers folder, with adapters merged into the weights and separate for resuming."""
        model = self.policy.model
        if self.adapted:
            model.save_pretrained(folder, state_dict=lora_adapters.merged(model))
            lora_adapters.save_adapter(model, self.config.lora, model.name_or_path or "", folder / ADAPTER_FOLDER)
        else:
            model.save_pretrained(folder)
        self.policy.tokenizer.save_pretrained(folder)
        state = self.state()
        with (folder / LEARNER_STATE).open(
            "wb"
        ) as file:  # with a path, torch writes in C++ and hides causes of failure
            torch.save(state, file)

    def load(self, folder: Path) -> list[str]:
        state = torch.load(folder / LEARNER_STATE, map_location=self.device, weights_only=True)
        return self.load_state(state)

    def close(self) -> None:
        """No-op: the learner started nothing."""
