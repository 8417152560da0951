"""Policy and critic updates on a batch of trajectories: scores, losses, optimiser steps. Advantages come from outside.

Sequences are right-padded and attention is causal, so padding needs no mask and changes nothing. With several processes
each goes through its share of the rows; what is added up over micro-batches is then added up over processes too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trainer.algorithms.losses import (
    LossTotals,
    PolicyLoss,
    aggregate,
    explained_variance,
    kl_penalty,
    policy_loss,
    truncated_weights,
    value_loss,
)
from trainer.algorithms.rewards import subtract_kl
from trainer.config.run import NEEDS_CRITIC, RunConfig
from trainer.diagnostics.compute import mismatch_metrics
from trainer.distributed import fsdp
from trainer.distributed.group import ProcessGroup, SingleProcess, collective
from trainer.learner import gradient_diagnostics, learner_state, optimizers, trajectory_rows
from trainer.learner.micro_batches import partition, partition_shared
from trainer.learner.mutual_information import cross_scores
from trainer.learner.shared_prompts import find_batch_prefixes, prefixes_within
from trainer.learner.step_metrics import StepMetrics, UpdateTensors
from trainer.learner.step_metrics import TokenLogprobs as Scores
from trainer.memory.oom import OomRetry
from trainer.policy import gradient_checkpointing, lora_adapters
from trainer.policy.forward import PolicyForward
from trainer.policy.load import Critic, Policy
from trainer.policy.master_weights import MasterWeights, StepWeights
from trainer.policy.packing import attention
from trainer.policy.packing.layout import PackedBatch
from trainer.rollout.trajectory import Batch
from trainer.seeds import Purpose, derive

_KL_SAMPLE = 32  # trajectories that are enough to tell how far the policy has moved


class Learner:
    """Holds the policy, the critic where the estimator needs one, their optimisers, and the initial policy if used.

    With `lora.rank` above 0 it puts adapters into the policy and trains only those. Then the critic is built on the
    same frozen weights with adapters of its own, and the initial policy is the policy with its adapters switched off.

    With bfloat16 weights the optimisers step on float32 copies of them (master_weights.py).
    """

    def __init__(
        self, config: RunConfig, policy: Policy, reference: Policy | None = None, team: ProcessGroup | None = None
    ) -> None:
        self.config, self.policy, self.reference = config, policy, reference
        self.team: ProcessGroup = team or SingleProcess()
        self.device = policy.model.device
        settings = config.optimizer
        self.adapted = config.lora.rank > 0
        needs_critic = config.algorithm.estimator in NEEDS_CRITIC
        models = [known.model for known in (policy, reference) if known is not None]
        if settings.packing:
            for model in models:
                attention.prepare(model)
        self.shares_prompts = settings.prefix_sharing and (settings.packing or all(map(attention.prepared, models)))
        self.critic = Critic(policy.model, shared=self.adapted) if needs_critic else None
        if self.adapted:
            lora_adapters.attach_adapters(policy.model, config.lora, derive(config.seed, Purpose.ADAPTER))
            if self.critic is not None:
                seed = derive(config.seed, Purpose.ADAPTER, Purpose.CRITIC)
                lora_adapters.attach_adapters(cast(PreTrainedModel, self.critic.backbone), config.lora, seed)
        self.network, self.policy_weights = self._network()
        self.policy_optimizer = self._optimizer(self.network, self.policy_weights, settings.policy_lr)
        self.critic_weights = self._critic_weights()
        self.critic_optimizer: optimizers.Optimizer | None = None
        if self.critic is not None and self.critic_weights is not None:
            self.critic_optimizer = self._optimizer(self.critic, self.critic_weights, settings.critic_lr)
        self.oom_retry = OomRetry(settings.micro_batch_tokens, alone=not self.team.sharded)
        self.advantages: Tensor | None = None  # (B, T) of the last update's batch

    def _network(self) -> tuple[nn.Module, StepWeights]:
        """The policy as it learns, and its weights as they are stepped on."""
        model, settings = self.policy.model, self.config.optimizer
        if settings.gradient_checkpointing:
            gradient_checkpointing.checkpoint_layers(model)
        if self.team.sharded:
            return fsdp.policy(model, self.team.size, masters=settings.master_weights)
        return PolicyForward(model), MasterWeights(lora_adapters.trainable(model), wanted=settings.master_weights)

    def _critic_weights(self) -> StepWeights | None:
        settings = self.config.optimizer
        if self.critic is None:
            return None
        if settings.gradient_checkpointing:
            gradient_checkpointing.checkpoint_layers(self.critic)
        if self.team.sharded:
            return fsdp.critic(self.critic, self.team.size, masters=settings.master_weights)
        return MasterWeights(lora_adapters.trainable(self.critic), wanted=settings.master_weights)

    def _optimizer(self, module: nn.Module, weights: StepWeights, lr: float) -> optimizers.Optimizer:
        plain = optimizers.is_not_a_matrix(module)
        kinds = [plain[own] for own in lora_adapters.trainable(module)]
        return optimizers.make_optimizer(self.config.optimizer, lr, weights.parameters, kinds)

    def micro_batches(self, batch: Batch, *, shared: bool = True) -> Iterator[tuple[Tensor, Batch, PackedBatch | None]]:
        """Pieces of at most `micro_batch_tokens` tokens: rows that begin alike together, else rows of like length.

        Where processes must compute at the same time, one that runs out of rows is given pieces with nothing on their
        masks: what they are worth is 0.

        Args:
            shared: only this process's share of the rows.
        Yields:
            (rows of the whole batch, the piece on the device, its layout; None: it is computed with its padding).
        """
        lengths, most = batch.attention.sum(1), self.oom_retry.tokens
        team = self.team if shared else SingleProcess()
        common = find_batch_prefixes(batch) if self.shares_prompts else []
        if common:
            pieces = partition_shared(lengths, common, most, team.rank, team.size, even=team.sharded)
        else:
            pieces = partition(lengths, most, team.rank, team.size, even=team.sharded)
        for rows in pieces:
            idle = len(rows) == 0
            rows = lengths.argmin()[None] if idle else rows
            piece, packed = batch.select(rows), None
            if idle:
                piece.mask, piece.attention = torch.zeros_like(piece.mask), torch.zeros_like(piece.attention)
            elif common or (self.config.optimizer.packing and not bool(piece.attention.all())):
                packed = PackedBatch.of(piece.attention, prefixes_within(common, rows)).to(self.device)
            yield rows, piece.to(self.device), packed

    def _laid_out(self, values: Tensor, piece: Batch) -> Tensor:
        """(M,) numbers of sampled tokens → (B, T)."""
        return values.new_zeros(piece.mask.shape).masked_scatter(piece.mask, values)

    @collective
    @torch.no_grad()
    def score(self, batch: Batch, policy: Policy | None = None) -> Scores:
        """Log-probabilities and entropies of a batch's sampled tokens under a policy (default: the one in training)."""
        scores = self.oom_retry.attempt(lambda: self._scored(batch, PolicyForward((policy or self.policy).model)))
        self.team.add_up(scores.logprobs, scores.entropies)
        return scores

    def _scored(self, batch: Batch, network: nn.Module) -> Scores:
        """This process's share of the scores; 0 elsewhere."""
        scores = Scores(torch.zeros(batch.mask.shape), torch.zeros(batch.mask.shape))
        for rows, piece, packed in self.micro_batches(batch):
            logprobs, entropies = network(piece.ids, piece.mask, self.config.rollout.temperature, packed)
            width = piece.mask.shape[1]
            scores.logprobs[rows, :width] += self._laid_out(logprobs, piece).cpu()
            scores.entropies[rows, :width] += self._laid_out(entropies, piece).cpu()
        return scores

    @torch.no_grad()
    def values(self, batch: Batch) -> Tensor:
        """(B, T) the critic's values before each token; 0 in the padding."""
        found = self.oom_retry.attempt(lambda: self._valued(batch))
        self.team.add_up(found)
        return found

    def _valued(self, batch: Batch) -> Tensor:
        """This process's share of the values; 0 elsewhere."""
        assert self.critic is not None
        found = torch.zeros(batch.mask.shape)
        for rows, piece, packed in self.micro_batches(batch):
            found[rows, : piece.mask.shape[1]] += (self.critic(piece.ids, packed) * piece.attention).cpu()
        return found

    @collective
    def update(self, batch: Batch, iteration: int) -> dict[str, float]:
        """All optimiser steps of one iteration. Returns the metrics of the update; never NaN or infinite."""
        algorithm, metrics = self.config.algorithm, StepMetrics()
        rewards = batch.rewards
        initial: Tensor | None = None
        compares = self.reference is not None or self.adapted
        if compares and algorithm.kl_coef == 0:
            part = batch.select(torch.arange(min(len(batch), _KL_SAMPLE)))
            self._measure_kl(part, self._initial(part), metrics)
        elif compares:
            initial = self._initial(batch)
            self._measure_kl(batch, initial, metrics)
            kl = kl_penalty(batch.sampler_logprobs, initial, algorithm.kl_estimator)
            if algorithm.kl_placement == "reward":
                rewards = subtract_kl(rewards, kl, batch.mask, algorithm.kl_coef)
        old_logprobs, weights = self._corrected(batch, metrics)
        old_values = self.values(batch) if self.critic is not None else None
        estimated = trajectory_rows.estimate(batch, rewards, old_values, algorithm)
        self.advantages = estimated.advantages
        if old_values is not None and estimated.returns is not None:
            metrics.keep("value/explained_variance", explained_variance(estimated.returns, old_values, batch.mask))
        nothing = torch.zeros_like(rewards)
        extra = UpdateTensors(
            advantages=estimated.advantages * weights,
            returns=nothing if estimated.returns is None else estimated.returns,
            old_values=nothing if old_values is None else old_values,
            old_logprobs=old_logprobs,
            initial=initial,
        )
        metrics.keep("policy/learning_rate", self.config.optimizer.policy_lr)
        first = True
        for reuse in range(algorithm.updates_per_rollout):
            generator = torch.Generator().manual_seed(derive(self.config.seed, Purpose.UPDATE, iteration, reuse))
            order = torch.randperm(int(batch.trajectory.max()) + 1, generator=generator)
            for chosen in torch.split(order, self.config.optimizer.mini_batch_trajectories):
                rows = torch.cat([(batch.trajectory == number).nonzero()[:, 0] for number in chosen])
                others = [self.team.rank] if self.team.rank else []  # no two processes drop out the same
                seed = derive(self.config.seed, Purpose.UPDATE, iteration, reuse, int(chosen[0]), *others)
                if first and self.team.rank == 0 and self._split_due(iteration):
                    with lora_adapters.seeded_dropout(seed, self.policy.model):
                        self.oom_retry.attempt(partial(self._split_gradient, batch, rows, extra, metrics))
                self._step(batch, rows, extra, metrics, seed, iteration=iteration, first=first)
                first = False
        self.policy_weights.settle()
        return metrics.result()

    def _corrected(self, batch: Batch, metrics: StepMetrics) -> tuple[Tensor, Tensor]:
        """What the ratio is taken to, and what each token weighs: the sampler's log-probabilities and 1, unless its
        difference from the trainer is to be corrected."""
        cap = self.config.algorithm.tis_cap
        if cap is None:
            return batch.sampler_logprobs, torch.ones_like(batch.rewards)
        own = self.score(batch).logprobs
        weights = truncated_weights(own, batch.sampler_logprobs, batch.mask, cap)
        metrics.keep("mismatch/clipped_fraction", float((weights[batch.mask] >= cap).float().mean()))
        return own, weights

    def _initial(self, batch: Batch) -> Tensor:
        """(B, T) log-probabilities of the sampled tokens under the policy as it was before training."""
        if not self.adapted:
            return self.score(batch, self.reference).logprobs
        with lora_adapters.adapters_disabled(self.policy.model):
            return self.score(batch).logprobs

    def _measure_kl(self, batch: Batch, initial: Tensor, metrics: StepMetrics) -> None:
        """How far the policy that played is from the initial one."""
        kl = kl_penalty(batch.sampler_logprobs, initial, "k3")
        metrics.keep("policy/kl_to_initial", float(aggregate(kl, batch.mask, "token-mean")))

    def _step(
        self,
        batch: Batch,
        rows: Tensor,
        extra: UpdateTensors,
        metrics: StepMetrics,
        seed: int,
        *,
        iteration: int,
        first: bool,
    ) -> None:
        """One optimiser step of policy and critic on the given rows; the seed is that of the adapters' dropout."""
        chosen, extra = batch.select(rows), extra.select(rows, batch.mask.shape[1])
        learns_policy = iteration > self.config.optimizer.critic_warmup

        def gradients() -> tuple[dict[str, float], Tensor]:
            with lora_adapters.seeded_dropout(seed, self.policy.model, *([self.critic] if self.critic else [])):
                return self._gradients(chosen, extra, learns_policy=learns_policy)

        sums, seen = self.oom_retry.attempt(gradients, self._forget)
        added = self.team.total(sums)
        if first and learns_policy:
            self.team.add_up(seen)
            for name, number in mismatch_metrics(seen, chosen.sampler_logprobs, chosen.mask).items():
                metrics.keep(name, number)
        if learns_policy:
            self._apply(self.policy_optimizer, self.policy_weights, "policy/grad_norm", added)
        if self.critic_weights is not None and self.critic_optimizer is not None:
            self._apply(self.critic_optimizer, self.critic_weights, "value/grad_norm", added)
        metrics.add(added)

    def _forget(self) -> None:
        """Throw away the gradients of a step that is not taken."""
        for part in (self.network, self.critic, self.policy_optimizer, self.critic_optimizer):
            if part is not None:
                part.zero_grad(set_to_none=True)

    def _gradients(
        self, chosen: Batch, extra: UpdateTensors, *, learns_policy: bool
    ) -> tuple[dict[str, float], Tensor]:
        """Add up the gradients of a step in this process: its sums, and (B, T) log-probabilities of the policy."""
        algorithm, totals = self.config.algorithm, LossTotals.of(chosen.mask, chosen.trajectory)
        seen = torch.zeros(chosen.mask.shape)
        sums: defaultdict[str, float] = defaultdict(float)
        for piece_rows, piece, packed in self.micro_batches(chosen):
            width = piece.mask.shape[1]

            if learns_policy:
                of_piece = extra.select(piece_rows, width)
                logprobs, result, terms = self._policy_terms(self.network, piece, packed, of_piece, totals)
                seen[piece_rows, :width] += logprobs.detach().cpu()
                sum(terms.values()).backward()  # type: ignore[union-attr]
                sums["policy/loss"] += float(result.loss.detach())
                sums["policy/clip_fraction_low"] += float(result.clip_fraction_low)
                sums["policy/clip_fraction_high"] += float(result.clip_fraction_high)
                if algorithm.dual_clip is not None:
                    sums["policy/clip_fraction_dual"] += float(result.clip_fraction_dual)
                sums["policy/kl_to_rollout"] += float(result.kl_k3)
            if self.critic is not None:
                of = extra.select(piece_rows, width).to(self.device)
                value = value_loss(
                    self.critic(piece.ids, packed),
                    of.old_values,
                    of.returns,
                    piece.mask,
                    clip=algorithm.value_clip,
                    totals=totals,
                )
                (algorithm.value_coef * value.loss).backward()  # type: ignore[no-untyped-call]
                sums["value/loss"] += float(value.loss.detach())
                sums["value/clip_fraction"] += float(value.clip_fraction)
        return sums, seen

    def _policy_terms(
        self, network: nn.Module, piece: Batch, packed: PackedBatch | None, extra: UpdateTensors, totals: LossTotals
    ) -> tuple[Tensor, PolicyLoss, dict[str, Tensor]]:
        """(B, T) log-probabilities of a piece, its clipped objective, and the terms whose sum is minimised, by name."""
        algorithm = self.config.algorithm
        extra = extra.to(self.device)
        flat, flat_entropies = network(piece.ids, piece.mask, self.config.rollout.temperature, packed)
        logprobs, entropies = self._laid_out(flat, piece), self._laid_out(flat_entropies, piece)
        result = policy_loss(
            logprobs,
            extra.old_logprobs,
            extra.advantages,
            piece.mask,
            clip_low=algorithm.clip_low,
            clip_high=algorithm.clip_high,
            dual_clip=algorithm.dual_clip,
            aggregation=algorithm.aggregation,
            totals=totals,
            tokens=piece.tokens,
        )
        entropy = aggregate(entropies, piece.mask, algorithm.aggregation, totals, tokens=piece.tokens)
        terms = {"task": result.loss, "entropy": -algorithm.entropy_coef * entropy}
        if extra.initial is not None and algorithm.kl_placement == "loss":
            kl = kl_penalty(logprobs, extra.initial, algorithm.kl_estimator)
            kl = aggregate(kl, piece.mask, algorithm.aggregation, totals, tokens=piece.tokens)
            terms["kl"] = algorithm.kl_coef * kl
        return logprobs, result, terms

    def _split_due(self, iteration: int) -> bool:
        every = self.config.diagnostics.gradient_terms_every
        return bool(every) and iteration % every == 0 and iteration > self.config.optimizer.critic_warmup

    def _split_gradient(self, batch: Batch, rows: Tensor, extra: UpdateTensors, metrics: StepMetrics) -> None:
        """Norms and directions of the terms' gradients on the given rows, all of them here; changes nothing."""
        chosen = batch.select(rows)
        totals = LossTotals.of(chosen.mask, chosen.trajectory)
        network = PolicyForward(self.policy.model)
        pieces = (
            self._policy_terms(network, piece, packed, extra.select(rows[piece_rows], piece.mask.shape[1]), totals)[2]
            for piece_rows, piece, packed in self.micro_batches(chosen, shared=False)
        )
        for name, value in gradient_diagnostics.gradient_terms(pieces, lora_adapters.trainable(network)).items():
            metrics.keep(name, value)

    def _apply(self, optimizer: optimizers.Optimizer, weights: StepWeights, name: str, sums: dict[str, float]) -> None:
        """Clip and step; a gradient that is not finite is thrown away instead of poisoning the weights."""
        self.team.sum_gradients(weights.parameters)
        norm = weights.clip(self.config.optimizer.max_grad_norm)
        if math.isfinite(norm):
            optimizer.step()
            weights.publish()
            sums[name] = norm
            sums["update/steps"] = 1.0
        else:
            sums["update/skipped"] = sums.get("update/skipped", 0.0) + 1.0
        optimizer.zero_grad(set_to_none=True)

    @collective
    def cross_scores(self, prompts: list[list[int]], thoughts: list[list[int]]) -> Tensor:
        """(N, N) ℓ_j(z_i): each thought scored after each prompt, at temperature 1."""
        own = range(self.team.rank, len(prompts), self.team.size)
        scores = cross_scores(self.policy, prompts, thoughts, own)
        self.team.add_up(scores)
        return scores

    @collective
    def state(self) -> dict[str, Any]:
        """All that a checkpoint needs besides the policy's folder (learner_state.py)."""
        return learner_state.learner_state(self)

    def load_state(self, state: dict[str, Any]) -> list[str]:
        """Take up what `state` gave. Returns what people should be told about it.

        Raises:
            ModelError: it was saved with other LoRA settings.
        """
        return learner_state.load_learner_state(self, state)
