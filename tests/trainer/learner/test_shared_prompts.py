"""Common prefixes of rows are found, and computing them once changes neither values nor steps."""

from itertools import cycle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer import tiny
from tests.trainer.learner.test_learner import learner_for
from tests.trainer.shared_prefix_batches import Family, batch_of, families, mixed, prefixes_of
from tests.trainer.steps import variants
from trainer.config.run import PolicyConfig
from trainer.learner.groups.imitator import Imitator
from trainer.learner.learner import Learner
from trainer.policy.load import load
from trainer.policy.packing import shared_prefix
from trainer.policy.packing.shared_prefix import prefixes_within


def plain(rounds):
    return [sorted((part.members, part.start, part.stop) for part in parts) for parts in rounds]


@given(families, st.integers(1, 30), st.integers(0, 99))
def test_shared_prefixes_are_equal_unsampled_and_long_enough(known, worth, seed):
    batch = batch_of(known, seed, tokens=2)
    for parts in prefixes_of(batch, worth):
        for part in parts:
            rows = list(part.members)
            assert len(batch.ids[rows, : part.stop].unique(dim=0)) == 1
            assert not batch.mask[rows, : part.stop].any()
            assert batch.attention[rows, part.stop].all()
            assert (part.stop - part.start) * (len(rows) - 1) >= worth


def test_an_instruction_is_shared_by_all_and_a_prompt_by_its_group():
    assert plain(prefixes_of(mixed(), 5)) == [
        [((0, 1, 2, 3, 4, 5), 0, 20), ((6, 7), 0, 37)],
        [((0, 1, 2), 20, 29), ((3, 4, 5), 20, 51)],
    ]


def test_equal_responses_are_computed_one_by_one():
    batch = batch_of([Family(5, 5, [[6], [6]])])
    batch.ids[1] = batch.ids[0]
    ((part,),) = prefixes_of(batch, 1)
    assert part.stop == 10


def test_a_subset_keeps_only_prefixes_shared_by_two_rows():
    shared = prefixes_of(mixed(), 1)
    found = prefixes_within(shared, torch.tensor([7, 4, 1]))
    assert plain(found) == [[((1, 2), 0, 20)]]
    assert prefixes_within(shared, torch.tensor([8, 3])) == []


def small(learner):
    """Steps that do not depend on the sign of a nearly zero gradient."""
    for part in learner.trainable.values():
        part.optimizer = torch.optim.SGD(part.weights.parameters, lr=0.1)
    if learner.critic is not None:
        generator = torch.Generator().manual_seed(0)
        torch.nn.init.normal_(learner.critic.head.weight, std=0.1, generator=generator)
    return learner


SEPARATE = {False: [], True: ["separate"]}
CASES = {
    "plain": {},
    "packed": {},
    "critic": {"algorithm": {"estimator": "gae"}},
    "turns": {"algorithm": {"estimator": "bi_level_gae"}},
    "adapters": {"algorithm": {"estimator": "gae"}, "lora": {"rank": 4, "alpha": 4}},
    "recomputed": {"algorithm": {"estimator": "gae"}, "optimizer": {"gradient_checkpointing": True}},
    "corrected": {"algorithm": {"tis_cap": 2.0}},
    "small pieces": {"algorithm": {"estimator": "gae"}, "optimizer": {"micro_batch_tokens": 128}},
}


@pytest.mark.parametrize(("case", "model"), list(zip(CASES, cycle(["pocket", "llama"]), strict=False)))
def test_shared_prompts_change_no_number_and_no_step(pocket_folder, llama_folder, monkeypatch, model, case):
    monkeypatch.setattr(shared_prefix, "MIN_SHARED_TOKENS", 5)
    folder, batch, found = {"pocket": pocket_folder, "llama": llama_folder}[model], mixed(), []
    for on in (False, True):
        sections = CASES[case]
        optimizer = {"mini_batch_trajectories": 9, "max_grad_norm": 1e6} | sections.get("optimizer", {})
        with variants(*SEPARATE[not on], *(["packed"] if case == "packed" else [])):
            learner = small(learner_for(folder, **sections | {"optimizer": optimizer}))
        before = learner.score(batch)
        values = learner.values(batch) if learner.critic is not None else torch.zeros(1)
        computed = sum(
            packed.source.numel() if packed else int(piece.attention.sum())
            for _, piece, packed in learner.micro_batches(batch)
        )
        metrics = learner.update(batch, 1)
        parts = learner.trainable.values()
        after = torch.cat([weight.detach().flatten() for part in parts for weight in part.weights.parameters])
        found.append((before, values, after, metrics, computed))
    (alone, values, after, metrics, all_of_them), (shared, others, also, other, fewer) = found
    assert fewer < all_of_them == int(batch.attention.sum())
    assert torch.allclose(alone.logprobs, shared.logprobs, rtol=0, atol=1e-5)
    assert torch.allclose(alone.entropies, shared.entropies, rtol=0, atol=1e-5)
    assert torch.allclose(values, others, rtol=0, atol=1e-5)
    assert torch.allclose(after, also, rtol=0, atol=1e-6)
    assert other == pytest.approx(metrics, rel=1e-4, abs=1e-6)


def test_the_reference_and_gradient_diagnostics_share_prefixes_too(pocket_folder, monkeypatch):
    monkeypatch.setattr(shared_prefix, "MIN_SHARED_TOKENS", 5)
    found = []
    for on in (False, True):
        with variants(*SEPARATE[not on]):
            learner = learner_for(
                pocket_folder,
                reference=load(pocket_folder, PolicyConfig()),
                algorithm={"kl_coef": 0.1, "kl_penalty": "loss_k1"},
                optimizer={"mini_batch_trajectories": 9},
                diagnostics={"gradient_terms_every": 1},
            )
        found.append(small(learner).update(mixed(), 1))
    assert any(name.startswith("gradient/") for name in found[0])
    assert found[1] == pytest.approx(found[0], rel=1e-3, abs=1e-6)


def test_half_precision_is_as_accurate_with_shared_prompts(pocket_folder, monkeypatch):
    monkeypatch.setattr(shared_prefix, "MIN_SHARED_TOKENS", 5)
    found = []
    for on in (False, True):
        config = tiny.config(pocket_folder, policy={"dtype": "bfloat16"}, optimizer={"mini_batch_trajectories": 9})
        with variants(*SEPARATE[not on]):
            learner = Learner(config, load(pocket_folder, config.policy))
        found.append((learner.score(mixed()).logprobs, learner.update(mixed(), 1)["policy/grad_norm"]))
    (alone, norm), (shared, other) = found
    assert torch.allclose(alone, shared, rtol=0, atol=5e-2)
    assert other == pytest.approx(norm, rel=3e-2)


def test_no_layer_computes_a_shared_token_twice(pocket_folder, monkeypatch):
    monkeypatch.setattr(shared_prefix, "MIN_SHARED_TOKENS", 5)
    learner, batch = learner_for(pocket_folder), mixed()
    seen = []
    mlp = learner.policy.model.base_model.layers[0].mlp
    mlp.register_forward_hook(lambda module, given, out: seen.append(given[0].shape[0] * given[0].shape[1]))
    learner.score(batch)
    assert sum(seen) == int(batch.attention.sum()) - 5 * 20 - 2 * (9 + 31) - 37


def test_an_unsupported_architecture_is_computed_without_sharing(pocket_folder):
    policy = load(pocket_folder, PolicyConfig())
    policy.model._supports_attention_backend = False
    learner = learner_for(pocket_folder, policy=policy)
    assert not learner.shares_prompts
    assert all(packed is None for _, _, packed in learner.micro_batches(mixed()))
    assert policy.model.config._attn_implementation == "sdpa"


def test_rows_without_a_common_prefix_are_computed_padded(pocket_folder):
    learner = learner_for(pocket_folder)
    batch = batch_of([Family(20 + number, 3, [[4, 4]]) for number in range(4)])
    assert learner.shares_prompts
    assert all(packed is None for _, _, packed in learner.micro_batches(batch))


def test_imitation_shares_prompts_too(pocket_folder, monkeypatch):
    monkeypatch.setattr(shared_prefix, "MIN_SHARED_TOKENS", 5)
    found = []
    for on in (False, True):
        config = tiny.config(pocket_folder)
        with variants(*SEPARATE[not on]):
            imitator = Imitator(config, load(pocket_folder, config.policy))
        found.append(imitator.measure(mixed()) | imitator.imitate(mixed()))
    assert found[1] == pytest.approx(found[0], rel=1e-5)
