"""Update benchmark: equal work of all contenders, that is, equal gradients from equal dialogues."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bench.lib import recorded_dialogues
from bench.lib.random_models import SHAPES, build, outline, step_flops
from bench.lib.workers import plain_worker
from bench.lib.workers.our_worker import OurWorker, batch, settings
from tests.trainer import steps
from trainer.paths import POCKET_CHECKPOINT


def dialogues(made: str) -> list[recorded_dialogues.Dialogue]:
    return getattr(recorded_dialogues, made)(8, 12, 8, SHAPES["tiny"]["vocab_size"])


@pytest.mark.parametrize("made", ["even", "ragged"])
def test_the_update_and_the_plain_implementation_have_equal_gradients(made: str) -> None:
    config = settings(8)
    config.optimizer = config.optimizer.model_copy(update=steps.SGD)
    ours = OurWorker(build("tiny"), config)
    known = ours.record(dialogues(made))
    before = steps.stepped_on(ours.learner)
    metrics = ours.update(batch(known))
    model = build("tiny")
    norm = plain_worker.step(model, torch.optim.SGD(model.parameters(), lr=1.0), plain_worker.padded(known))
    assert metrics["policy/grad_norm"] == pytest.approx(norm, rel=1e-3)
    theirs = dict(zip(before, (weight.detach().double() for weight in model.parameters()), strict=True))
    assert all(not torch.equal(theirs[name], before[name]) for name in before)
    steps.assert_same_step(before, steps.stepped_on(ours.learner), theirs)


def test_plain_micro_batches_add_up_to_the_whole_batch() -> None:
    known = OurWorker(build("tiny"), settings(8)).record(dialogues("ragged"))
    norms = []
    for micro in (1, 100_000):
        model = build("tiny")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0.0)
        norms.append(plain_worker.step(model, optimizer, plain_worker.padded(known), micro))
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)


def test_recorded_log_probabilities_cover_sampled_tokens_only() -> None:
    known = OurWorker(build("tiny"), settings(8)).record(dialogues("ragged"))
    for dialogue in known:
        assert [number < 0 for number in dialogue.logprobs] == dialogue.sampled


def test_dialogues_of_a_group_share_a_prompt_and_survive_the_file_round_trip(tmp_path) -> None:
    made = recorded_dialogues.ragged(16, 30, 12, 100)
    assert len({tuple(dialogue.prompt) for dialogue in made[:8]}) == 1
    assert made[0].prompt != made[8].prompt
    assert all(len(dialogue.sampled) == len(dialogue.rest) and dialogue.trained for dialogue in made)
    recorded_dialogues.save(made, tmp_path / "work.json")
    assert recorded_dialogues.load(tmp_path / "work.json") == made


def test_flops_of_a_step_equal_the_pytorch_count() -> None:
    """PyTorch counts attention whole, of which causal attention needs half."""
    model, length, rows = build("tiny"), 32, 2
    model.set_attn_implementation("eager")  # the other kinds are not counted on a CPU
    ids = torch.zeros(rows, length, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids).logits.sum().backward()
    config = model.config
    attention = 6 * config.num_hidden_layers * config.hidden_size * rows * length**2
    counted = counter.get_total_flops()
    expected = step_flops(model, [length] * rows, rows * length) + attention
    assert expected == pytest.approx(counted, rel=0.01)


def test_the_half_billion_shape_has_the_parameter_count_of_its_model() -> None:
    assert sum(weight.numel() for weight in outline("qwen2.5-0.5b").parameters()) == 494_032_768


def test_the_pocket_shape_matches_the_pocket_policy() -> None:
    from transformers import AutoConfig

    shipped = AutoConfig.from_pretrained(POCKET_CHECKPOINT)
    assert {name: getattr(shipped, name) for name in SHAPES["pocket"]} == SHAPES["pocket"]
