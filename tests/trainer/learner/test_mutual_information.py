"""Every thought is scored after every prompt; what prompts and rows have in common is computed once."""

import pytest
import torch

from tests.trainer.learner.test_learner import learner_for
from tests.trainer.steps import variants

INSTRUCTION = list(range(100, 180))
PROMPTS = [[*INSTRUCTION, *range(200 + 10 * n, 220 + 10 * n + n)] for n in range(5)]
THOUGHTS = [[41, 42 + n, 43][: 2 + n % 2] for n in range(5)]


def counted(learner, monkeypatch):
    """Number of tokens in each forward pass of the learner's policy."""
    sizes, backbone = [], type(learner.policy.model.base_model)
    forward = backbone.forward

    def count(self, input_ids=None, **extra):
        sizes.append(input_ids.numel())
        return forward(self, input_ids=input_ids, **extra)

    monkeypatch.setattr(backbone, "forward", count)
    return sizes


@pytest.mark.parametrize("tokens", [64, 150, 400, 16_384])
def test_scores_do_not_depend_on_shared_prompts_and_passes(pocket_folder, tokens):
    with variants("separate"):
        apart = learner_for(pocket_folder)
    shared = learner_for(pocket_folder, optimizer={"micro_batch_tokens": tokens})
    expected = apart.cross_scores(PROMPTS, THOUGHTS)
    assert torch.allclose(shared.cross_scores(PROMPTS, THOUGHTS), expected, rtol=0, atol=1e-4)
    assert bool((expected < 0).all())


def test_the_instruction_and_every_prompt_are_computed_once(pocket_folder, monkeypatch):
    learner = learner_for(pocket_folder, optimizer={"micro_batch_tokens": 16_384})
    sizes = counted(learner, monkeypatch)
    learner.cross_scores(PROMPTS, THOUGHTS)
    own = sum(len(prompt) - len(INSTRUCTION) for prompt in PROMPTS)
    assert sizes == [len(INSTRUCTION) + own + len(PROMPTS) * sum(map(len, THOUGHTS))]


@pytest.mark.parametrize("tokens", [150, 400])
def test_passes_have_a_limited_size(pocket_folder, monkeypatch, tokens):
    learner = learner_for(pocket_folder, optimizer={"micro_batch_tokens": tokens})
    sizes = counted(learner, monkeypatch)
    learner.cross_scores(PROMPTS, THOUGHTS)
    assert max(sizes) <= tokens


def test_each_thought_is_reported_before_it_is_measured(pocket_folder):
    learner, reports = learner_for(pocket_folder), []
    learner.meter.on_progress = lambda report: reports.append((report.stage, report.done, report.total))
    learner.cross_scores(PROMPTS, THOUGHTS, 2, 1)
    assert reports == [("prepare", 2 + number, 8) for number in range(5)]
