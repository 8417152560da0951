"""Helpers of the vLLM tests: prompts, sampling, and scores by the trainer's own model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

import envs
from trainer.config.run import RolloutConfig
from trainer.engines.sampler import SampledResponse, Sampler, SamplingParams
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import Policy
from trainer.rollout.prompts import opening_message, state_message

GREEDY = SamplingParams(temperature=0, max_tokens=48)


def openings_of(chat: ChatFormat, number: int) -> list[list[int]]:
    """Different first prompts of Sokoban rooms, on which the shipped policy was trained."""
    env, prompts = envs.make("Sokoban", {}), []
    for seed in range(number):
        env.reset(seed=seed)
        state = state_message(env.render(), turn=0, actions_left=10, last_reward=None)
        prompts.append(chat.opening(opening_message(env.env_spec, RolloutConfig()) + state))
    return prompts


def sample(
    sampler: Sampler, prompts: Sequence[list[int]], params: SamplingParams, seed: int = 0
) -> list[SampledResponse]:
    """One response to each prompt, row r with seed `seed` + r."""
    session = sampler.session([seed + row for row in range(len(prompts))], params)
    responses = dict(session.generate(dict(enumerate(prompts))))
    return [responses[row] for row in range(len(prompts))]


@torch.no_grad()
def scored(policy: Policy, prompt: list[int], response: SampledResponse, temperature: float = 1.0) -> Tensor:
    """(n,) log-probabilities of the response's tokens by the trainer's own model, nats."""
    ids = torch.tensor([[*prompt, *response.ids]])
    logits = policy.model(ids).logits[0, len(prompt) - 1 : -1].float()
    return torch.log_softmax(logits / (temperature or 1.0), -1).gather(1, torch.tensor(response.ids)[:, None])[:, 0]


def k3(
    policy: Policy, prompts: Sequence[list[int]], responses: Sequence[SampledResponse], temperature: float = 1.0
) -> float:
    """Mean of r − 1 − log r over all tokens, r trainer over sampler: an estimate of their KL divergence, nats."""
    difference = torch.cat(
        [
            scored(policy, prompt, response, temperature).double() - torch.tensor(response.logprobs).double()
            for prompt, response in zip(prompts, responses, strict=True)
        ]
    )
    return float((difference.exp() - 1 - difference).mean())


def dialogue(
    sampler: Sampler, first: Mapping[int, list[int]], later: list[int], turns: int, params: SamplingParams
) -> dict[int, list[SampledResponse]]:
    """Responses of rows that get the prompt `later` after each response, until each has had `turns` turns."""
    session = sampler.session([100 + row for row in range(max(first) + 1)], params)
    responses: dict[int, list[SampledResponse]] = {row: [] for row in first}
    for row, response in session.generate(first):
        responses[row].append(response)
        if len(responses[row]) < turns:
            session.append(row, later)
    return responses
