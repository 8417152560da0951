"""Policy and critic updates on a batch of trajectories: scores, losses, optimiser steps. Advantages come from outside.

Sequences are right-padded and attention is causal, so padding needs no mask and changes nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trainer import gradients, lora, windows
from trainer.config import NEEDS_CRITIC, RunConfig
from trainer.diagnostics import mismatch_metrics
from trainer.losses import (
    PolicyLoss,
    Totals,
    aggregate,
    explained_variance,
    kl_penalty,
    policy_loss,
    truncated_weights,
    value_loss,
)
from trainer.policies import Critic, ModelError, Policy, output_head
from trainer.rewards import subtract_kl
from trainer.seeds import Purpose, derive
from trainer.token_scores import head_scores
from trainer.trajectories import Batch

_KL_SAMPLE = 32  # trajectories that are enough to tell how far the policy has moved


@dataclass
class Scores:
    """(B, T) numbers of the policy (or reference) on the sampled tokens; 0 off the mask."""

    logprobs: Tensor
    entropies: Tensor


class Learner:
    """Holds the policy, the critic where the estimator needs one, their optimisers, and the initial policy if used.

    With `lora.rank` above 0 it puts adapters into the policy and trains only those. Then the critic is built on the
    same frozen weights with adapters of its own, and the initial policy is the policy with its adapters switched off.
    """

    def __init__(self, config: RunConfig, policy: Policy, reference: Policy | None = None) -> None:
        self.config, self.policy, self.reference = config, policy, reference
        self.device = policy.model.device
        settings = config.optimizer
        betas = (settings.beta1, settings.beta2)
        self.adapted = config.lora.rank > 0
        needs_critic = config.algorithm.estimator in NEEDS_CRITIC
        self.critic = Critic(policy.model, shared=self.adapted) if needs_critic else None
        if self.adapted:
            lora.attach(policy.model, config.lora, derive(config.seed, Purpose.ADAPTER))
            if self.critic is not None:
                seed = derive(config.seed, Purpose.ADAPTER, Purpose.CRITIC)
                lora.attach(cast(PreTrainedModel, self.critic.backbone), config.lora, seed)
        self.policy_optimizer = torch.optim.AdamW(
            lora.trainable(policy.model), lr=settings.policy_lr, betas=betas, weight_decay=settings.weight_decay
        )
        self.critic_optimizer = (
            torch.optim.AdamW(
                lora.trainable(self.critic), lr=settings.critic_lr, betas=betas, weight_decay=settings.weight_decay
            )
            if self.critic is not None
            else None
        )
        self.advantages: Tensor | None = None  # (B, T) of the last update's batch

    def micro_batches(self, batch: Batch) -> Iterator[tuple[Tensor, Batch]]:
        """The batch in pieces of at most `micro_batch_tokens` padded tokens, rows of like length together.

        Yields: (rows of the whole batch, the piece on the device).
        """
        lengths = batch.attention.sum(1)
        order = lengths.argsort(descending=True, stable=True).tolist()
        while order:
            fit = max(1, self.config.optimizer.micro_batch_tokens // int(lengths[order[0]]))
            rows, order = torch.tensor(order[:fit]), order[fit:]
            yield rows, batch.select(rows).to(self.device)

    def _forward(self, policy: Policy, piece: Batch) -> tuple[Tensor, Tensor]:
        """(M,) log-probabilities and (M,) entropies of the piece's M sampled tokens, at the rollout's temperature."""
        hidden = policy.model.base_model(input_ids=piece.ids, use_cache=False).last_hidden_state
        chosen = piece.mask[:, 1:]
        ids = piece.ids[:, 1:][chosen]
        return head_scores(output_head(policy.model), hidden[:, :-1][chosen], ids, self.config.rollout.temperature)

    def _laid_out(self, values: Tensor, piece: Batch) -> Tensor:
        """(M,) numbers of sampled tokens → (B, T)."""
        return values.new_zeros(piece.mask.shape).masked_scatter(piece.mask, values)

    @torch.no_grad()
    def score(self, batch: Batch, policy: Policy | None = None) -> Scores:
        """Log-probabilities and entropies of a batch's sampled tokens under a policy (default: the one in training)."""
        scores = Scores(torch.zeros(batch.mask.shape), torch.zeros(batch.mask.shape))
        for rows, piece in self.micro_batches(batch):
            logprobs, entropies = self._forward(policy or self.policy, piece)
            width = piece.mask.shape[1]
            scores.logprobs[rows, :width] = self._laid_out(logprobs, piece).cpu()
            scores.entropies[rows, :width] = self._laid_out(entropies, piece).cpu()
        return scores

    @torch.no_grad()
    def values(self, batch: Batch) -> Tensor:
        """(B, T) the critic's values before each token."""
        assert self.critic is not None
        found = torch.zeros(batch.mask.shape)
        for rows, piece in self.micro_batches(batch):
            found[rows, : piece.mask.shape[1]] = self.critic(piece.ids).cpu()
        return found

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
        estimated = windows.estimate(batch, rewards, old_values, algorithm)
        self.advantages = estimated.advantages
        if old_values is not None and estimated.returns is not None:
            metrics.keep("value/explained_variance", explained_variance(estimated.returns, old_values, batch.mask))
        nothing = torch.zeros_like(rewards)
        extra = Extra(
            advantages=estimated.advantages * weights,
            returns=nothing if estimated.returns is None else estimated.returns,
            old_values=nothing if old_values is None else old_values,
            old_logprobs=old_logprobs,
            initial=initial,
        )
        metrics.keep("policy/learning_rate", self.config.optimizer.policy_lr)
        first = True
        for reuse in range(algorithm.reuse):
            generator = torch.Generator().manual_seed(derive(self.config.seed, Purpose.UPDATE, iteration, reuse))
            order = torch.randperm(int(batch.trajectory.max()) + 1, generator=generator)
            for chosen in torch.split(order, self.config.optimizer.update_batch):
                rows = torch.cat([(batch.trajectory == number).nonzero()[:, 0] for number in chosen])
                seed = derive(self.config.seed, Purpose.UPDATE, iteration, reuse, int(chosen[0]))
                if first and self._split_due(iteration):
                    with lora.dropping(seed, self.policy.model):
                        self._split_gradient(batch, rows, extra, metrics)
                with lora.dropping(seed, self.policy.model, *([self.critic] if self.critic else [])):
                    self._step(batch, rows, extra, metrics, iteration=iteration, first=first)
                first = False
        return metrics.result()

    def _corrected(self, batch: Batch, metrics: StepMetrics) -> tuple[Tensor, Tensor]:
        """What the ratio is taken to, and what each token weighs: the sampler's log-probabilities and 1, unless its
        difference from the trainer is to be corrected."""
        cap = self.config.algorithm.tis_cap
        if cap is None:
            return batch.sampler_logprobs, torch.ones_like(batch.rewards)
        own = self.score(batch).logprobs
        weights = truncated_weights(own, batch.sampler_logprobs, batch.mask, cap)
        metrics.keep("mismatch/capped_share", float((weights[batch.mask] >= cap).float().mean()))
        return own, weights

    def _initial(self, batch: Batch) -> Tensor:
        """(B, T) log-probabilities of the sampled tokens under the policy as it was before training."""
        if not self.adapted:
            return self.score(batch, self.reference).logprobs
        with lora.without(self.policy.model):
            return self.score(batch).logprobs

    def _measure_kl(self, batch: Batch, initial: Tensor, metrics: StepMetrics) -> None:
        """How far the policy that played is from the initial one."""
        kl = kl_penalty(batch.sampler_logprobs, initial, "k3")
        metrics.keep("policy/kl_to_initial", float(aggregate(kl, batch.mask, "token-mean")))

    def _step(
        self, batch: Batch, rows: Tensor, extra: Extra, metrics: StepMetrics, *, iteration: int, first: bool
    ) -> None:
        """One optimiser step of policy and critic on the given rows."""
        algorithm, settings = self.config.algorithm, self.config.optimizer
        chosen = batch.select(rows)
        totals = Totals.of(chosen.mask, chosen.trajectory)
        learns_policy = iteration > settings.critic_warmup
        seen = torch.zeros(chosen.mask.shape)
        sums: defaultdict[str, float] = defaultdict(float)
        for piece_rows, piece in self.micro_batches(chosen):
            width = piece.mask.shape[1]

            if learns_policy:
                logprobs, result, terms = self._policy_terms(piece, extra.select(rows[piece_rows], width), totals)
                seen[piece_rows, :width] = logprobs.detach().cpu()
                sum(terms.values()).backward()  # type: ignore[union-attr]
                sums["policy/loss"] += float(result.loss.detach())
                sums["policy/clip_fraction_low"] += float(result.clip_fraction_low)
                sums["policy/clip_fraction_high"] += float(result.clip_fraction_high)
                if algorithm.dual_clip is not None:
                    sums["policy/clip_fraction_dual"] += float(result.clip_fraction_dual)
                sums["policy/kl_to_rollout"] += float(result.kl_k3)
            if self.critic is not None:
                of = extra.select(rows[piece_rows], width).to(self.device)
                value = value_loss(
                    self.critic(piece.ids),
                    of.old_values,
                    of.returns,
                    piece.mask,
                    clip=algorithm.value_clip,
                    totals=totals,
                )
                (algorithm.value_coef * value.loss).backward()  # type: ignore[no-untyped-call]
                sums["value/loss"] += float(value.loss.detach())
                sums["value/clip_fraction"] += float(value.clip_fraction)
        if first and learns_policy:
            for name, number in mismatch_metrics(seen, chosen.sampler_logprobs, chosen.mask).items():
                metrics.keep(name, number)
        if learns_policy:
            self._apply(self.policy_optimizer, self.policy.model, "policy/grad_norm", sums)
        if self.critic is not None and self.critic_optimizer is not None:
            self._apply(self.critic_optimizer, self.critic, "value/grad_norm", sums)
        metrics.add(sums)

    def _policy_terms(
        self, piece: Batch, extra: Extra, totals: Totals
    ) -> tuple[Tensor, PolicyLoss, dict[str, Tensor]]:
        """(B, T) log-probabilities of a piece, its clipped objective, and the terms whose sum is minimised, by name."""
        algorithm = self.config.algorithm
        extra = extra.to(self.device)
        flat, flat_entropies = self._forward(self.policy, piece)
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
        every = self.config.diagnostics.gradient_split_every
        return bool(every) and iteration % every == 0 and iteration > self.config.optimizer.critic_warmup

    def _split_gradient(self, batch: Batch, rows: Tensor, extra: Extra, metrics: StepMetrics) -> None:
        """Norms and directions of the terms' gradients on the given rows; leaves everything as it was."""
        chosen = batch.select(rows)
        totals = Totals.of(chosen.mask, chosen.trajectory)
        pieces = (
            self._policy_terms(piece, extra.select(rows[piece_rows], piece.mask.shape[1]), totals)[2]
            for piece_rows, piece in self.micro_batches(chosen)
        )
        for name, value in gradients.split(pieces, lora.trainable(self.policy.model)).items():
            metrics.keep(name, value)

    def _apply(
        self, optimizer: torch.optim.Optimizer, module: nn.Module, name: str, sums: defaultdict[str, float]
    ) -> None:
        """Clip and step; a gradient that is not finite is thrown away instead of poisoning the weights."""
        norm = float(nn.utils.clip_grad_norm_(module.parameters(), self.config.optimizer.max_grad_norm))
        if math.isfinite(norm):
            optimizer.step()
            sums[name] = norm
            sums["update/steps"] = 1.0
        else:
            sums["update/skipped"] += 1.0
        optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def cross_scores(self, prompts: list[list[int]], thoughts: list[list[int]]) -> Tensor:
        """(N, N) ℓ_j(z_i): each thought scored after each prompt, at temperature 1."""
        n = len(prompts)
        scores = torch.zeros(n, n)
        head = output_head(self.policy.model)
        for i, thought in enumerate(thoughts):
            longest = max(map(len, prompts)) + len(thought)
            rows = torch.full((n, longest), self.policy.pad_id, dtype=torch.long)
            positions = torch.zeros(n, len(thought), dtype=torch.long)
            for j, prompt in enumerate(prompts):
                rows[j, : len(prompt) + len(thought)] = torch.tensor(prompt + thought)
                positions[j] = torch.arange(len(prompt) - 1, len(prompt) - 1 + len(thought))
            hidden = self.policy.model.base_model(input_ids=rows.to(self.device), use_cache=False).last_hidden_state
            picked = hidden[torch.arange(n)[:, None], positions.to(self.device)]
            ids = torch.tensor(thought, device=picked.device).repeat(n)
            scores[i] = head_scores(head, picked.flatten(0, 1), ids)[0].view(n, -1).sum(1).cpu()
        return scores

    def state(self) -> dict[str, Any]:
        """Everything but the policy's weights: critic and optimisers; with adapters these instead of whole weights."""
        critic = self.critic
        whole = lora.state if self.adapted else nn.Module.state_dict
        return {
            "policy_optimizer": self.policy_optimizer.state_dict(),
            "adapters": lora.state(self.policy.model) if self.adapted else None,
            "critic": whole(critic) if critic else None,
            "critic_optimizer": self.critic_optimizer.state_dict() if self.critic_optimizer else None,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave. Raises ModelError when it was saved with other LoRA settings."""
        if self.adapted:
            lora.load_state(self.policy.model, state.get("adapters") or {})
        elif state.get("adapters"):
            raise ModelError("the checkpoint was trained with adapters: lora.rank must stay what it was")
        _take_up(self.policy_optimizer, state["policy_optimizer"])
        if self.critic is not None and self.critic_optimizer is not None:
            if self.adapted:
                lora.load_state(self.critic, state["critic"])
            else:
                self.critic.load_state_dict(state["critic"])
            _take_up(self.critic_optimizer, state["critic_optimizer"])


def _take_up(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load the optimiser's moments, but keep its settings: a run may go on with others than it was saved with."""
    settings = [{name: group[name] for name in ("lr", "betas", "weight_decay")} for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, kept in zip(optimizer.param_groups, settings, strict=True):
        group |= kept


@dataclass
class Extra:
    """(B, T) numbers that go with a batch through its update.

    `old_logprobs` is what the ratio is taken to, `initial` are the reference's log-probabilities.
    """

    advantages: Tensor
    returns: Tensor
    old_values: Tensor
    old_logprobs: Tensor
    initial: Tensor | None

    def select(self, rows: Tensor, width: int) -> Extra:
        """The given rows, cut to this many tokens."""
        return self._each(lambda values: values[rows, :width])

    def to(self, device: torch.device) -> Extra:
        """The same on a device."""
        return self._each(lambda values: values.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Extra:
        known: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        changed: dict[str, Any] = {name: None if values is None else change(values) for name, values in known.items()}
        return Extra(**changed)


COUNTS = ("update/steps", "update/skipped")


class StepMetrics:
    """Means over optimiser steps, and values that are taken once."""

    def __init__(self) -> None:
        self._lists: dict[str, list[float]] = defaultdict(list)
        self._once: dict[str, float] = {}

    def add(self, step: dict[str, float]) -> None:
        for name, value in step.items():
            self._lists[name].append(value)

    def keep(self, name: str, value: float | None) -> None:
        if value is not None:
            self._once[name] = value

    def result(self) -> dict[str, float]:
        """Means (sums where a count is meant) of everything finite."""
        found = {
            name: sum(values) if name in COUNTS else sum(values) / len(values)
            for name, values in self._lists.items()
        }
        return {name: value for name, value in (found | self._once).items() if abs(value) < float("inf")}
