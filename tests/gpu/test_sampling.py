"""Sampling on a GPU: graphs equal single kernels, log-probabilities equal the trainer's, memory is found again."""

from __future__ import annotations

import pytest
import torch

from bench.lib.recorded_dialogues import ragged
from tests.gpu.conftest import pocket
from tests.gpu.dialogues import VOCABULARY, config
from trainer.engines.sampler import SampledResponse, SamplingParams
from trainer.engines.transformers.cache_check import check_cache
from trainer.engines.transformers.decode_steps import DecodeMode
from trainer.engines.transformers.transformers_sampler import TransformersSampler, TransformersSession
from trainer.learner.learner import Learner
from trainer.policy.load import Policy
from trainer.rollout.trajectory import Trajectory, collate

TURNS, ROWS, WRITTEN = 4, 40, 60


def play(policy: Policy, decoding: DecodeMode) -> tuple[list[Trajectory], list[SampledResponse], TransformersSession]:
    """Dialogues of several turns; rows end at different lengths, and some pause for a turn."""
    eos = int(policy.tokenizer.eos_token_id)
    sampler = TransformersSampler(policy.model, eos, policy.pad_id, decoding=decoding)
    session = sampler.session(range(ROWS), SamplingParams(max_tokens=WRITTEN))
    assert isinstance(session, TransformersSession)
    dialogues = ragged(ROWS, 100, 20, VOCABULARY, 1)
    played = [Trajectory(id=str(row), group=row // 8, member=row % 8) for row in range(ROWS)]
    responses = []
    for turn in range(TURNS):
        prompts = {
            row: dialogue.prompt[: 60 if turn else None]
            for row, dialogue in enumerate(dialogues)
            if (row + turn) % 3 or not turn
        }
        for row, response in session.generate(prompts):
            played[row].append_prompt(prompts[row])
            played[row].append_response(response.ids, response.logprobs, response.entropies, turn)
            responses.append(response)
    return played, responses, session


def test_graphs_sample_as_single_kernels_do(on_gpu: Policy) -> None:
    """Bit for bit: the same kernels on the same shapes."""
    _, expected, _ = play(on_gpu, "static")
    _, found, session = play(on_gpu, "graphs")
    assert session.steps is not None
    assert session.steps.failure == ""
    assert session.steps.replays > 50
    assert [response.ids for response in found] == [response.ids for response in expected]
    assert [response.logprobs for response in found] == [response.logprobs for response in expected]


@pytest.mark.parametrize("decoding", ["ragged", "static", "graphs"])
@pytest.mark.parametrize(("dtype", "within"), [("float32", 1e-3), ("bfloat16", 0.3)])
def test_log_probabilities_equal_the_trainers(decoding: DecodeMode, dtype: str, within: float) -> None:
    policy = pocket("cuda", dtype)
    played, _, _ = play(policy, decoding)
    learner = Learner(config(dtype, rows=ROWS), policy)
    batch = collate(played, pad_id=0)
    difference = learner.score(batch).logprobs - batch.sampler_logprobs
    assert float(difference.abs().max()) < within


def test_graphs_follow_the_weights(on_gpu: Policy) -> None:
    """They read the addresses of the weights, which an update overwrites in place."""
    before, _, _ = play(on_gpu, "graphs")
    with torch.no_grad():
        for weight in on_gpu.model.parameters():
            weight.mul_(1.05)
    after, expected = play(on_gpu, "graphs")[0], play(on_gpu, "static")[0]
    assert [one.ids for one in after] == [one.ids for one in expected] != [one.ids for one in before]


def test_greedy_tokens_equal_those_of_the_cpu(on_cpu: Policy, on_gpu: Policy) -> None:
    """Of short responses: a tie that rounding decides would change everything after it."""
    prompts = dict(enumerate(dialogue.prompt for dialogue in ragged(16, 100, 8, VOCABULARY, 1)))
    found = []
    for policy in (on_cpu, on_gpu):
        sampler = TransformersSampler(policy.model, int(policy.tokenizer.eos_token_id), policy.pad_id, threads=0)
        responses = dict(sampler.session(range(16), SamplingParams(temperature=0, max_tokens=8)).generate(prompts))
        found.append([responses[row].ids for row in range(16)])
    assert sum(one == other for one, other in zip(*found, strict=True)) >= 15


def test_a_model_that_cannot_be_captured_is_sampled_without_graphs(
    on_gpu: Policy, caplog: pytest.LogCaptureFixture
) -> None:
    base = on_gpu.model.base_model
    whole = base.forward

    def reads_a_value(*arguments: object, **named: object) -> object:
        output = whole(*arguments, **named)
        float(output.last_hidden_state.sum())  # not allowed while a graph is captured
        return output

    base.forward = reads_a_value
    _, found, session = play(on_gpu, "graphs")
    base.forward = whole
    _, expected, _ = play(on_gpu, "static")
    assert session.steps is not None
    assert session.steps.failure
    assert session.steps.replays == 0
    assert "without CUDA graphs" in caplog.text
    assert torch.rand(2, device="cuda").isfinite().all()  # the failed capture has released the generator
    assert [response.ids for response in found] == [response.ids for response in expected]


def test_a_session_leaves_no_memory_behind(on_gpu: Policy) -> None:
    play(on_gpu, "graphs")
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    play(on_gpu, "graphs")
    assert torch.cuda.memory_allocated() <= before + 2**20


def test_the_cache_agrees_with_whole_passes(on_gpu: Policy) -> None:
    check_cache(on_gpu.model)
