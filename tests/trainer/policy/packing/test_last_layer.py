"""The last layer computes only tokens that others are predicted from, with equal values and gradients."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.learner.test_learner import batch_of as learner_batch
from tests.trainer.learner.test_learner import learner_for
from tests.trainer.memory.test_estimate import built
from tests.trainer.shared_prefix_batches import batch_of, families, mixed, prefixes_of
from tests.trainer.steps import variants
from trainer.distributed.group import SingleProcess
from trainer.learner.micro_batch_plan import Planner
from trainer.policy.forward import PolicyForward, hidden_before
from trainer.policy.packing import attention, last_layer
from trainer.policy.packing.layout import PackedBatch

KINDS = ("qwen2", "qwen3", "llama")


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    torch.manual_seed(0)
    found = built(request.param).eval()
    assert attention.prepared(found)
    return found


def layouts(batch, worth):
    """The batch's layout without targets, and with those of its mask."""
    shared = prefixes_of(batch, worth)
    return PackedBatch.of(batch.attention, shared), PackedBatch.of(batch.attention, shared, mask=batch.mask)


@given(known=families, worth=st.integers(1, 30), seed=st.integers(0, 99))
def test_hidden_states_at_targets_are_those_of_the_whole_layer(model, known, worth, seed):
    batch = batch_of(known, seed)
    whole, targeted = layouts(batch, worth)
    with torch.no_grad():
        everywhere = hidden_before(model, batch.ids, batch.mask, whole)
        at_targets = hidden_before(model, batch.ids, batch.mask, targeted)
    assert torch.allclose(everywhere, at_targets, rtol=0, atol=1e-5)


def test_gradients_are_those_of_the_whole_layer(model):
    batch, found = mixed(), []
    for packed in layouts(batch, 5):
        model.zero_grad()
        logprobs, entropies = PolicyForward(model)(batch.ids, batch.mask, 1.0, packed)
        (logprobs.sum() + 0.1 * entropies.sum()).backward()
        found.append({name: weight.grad.clone() for name, weight in model.named_parameters()})
    whole, targeted = found
    for name, gradient in whole.items():
        assert float((gradient - targeted[name]).norm()) <= 1e-5 * float(gradient.norm()) + 1e-7, name


def test_prompts_and_observations_do_not_pass_the_last_layer(pocket_folder):
    with variants("packed"):
        learner = learner_for(pocket_folder)
    batch = learner_batch(learner, [1, 0, 0, 0, 1, 0])
    seen = {0: 0, -1: 0}
    for number in seen:
        learner.policy.model.base_model.layers[number].mlp.register_forward_hook(
            lambda module, given, out, number=number: seen.__setitem__(number, seen[number] + given[0].shape[1])
        )
    learner.score(batch)
    assert seen[0] == int(batch.attention.sum())
    assert seen[-1] == int(batch.mask.sum()) < seen[0]


def test_queries_of_targets_read_their_own_prefix_and_themselves():
    batch = mixed()
    packed = PackedBatch.of(batch.attention, prefixes_of(batch, 5), mask=batch.mask)
    targets = packed.targets
    before = packed.place[:, :-1][batch.mask[:, 1:]]
    assert torch.equal(targets.places[targets.index], before)
    reads, queries = {}, []
    for segments in targets.segments:
        mask = segments.mask(torch.float32)[:, 0]
        assert segments.keys(segments.queries.shape[1]) <= segments.seen.shape[1]
        for own, seen, lines in zip(segments.queries, segments.seen, mask, strict=True):
            queries += own.tolist()
            for number, line in zip(own.tolist(), lines, strict=True):
                reads.setdefault(number, []).append(seen[line == 0].tolist())
    assert [queries[place] for place in targets.back] == list(range(len(targets.places)))
    for row, column in batch.mask.nonzero().tolist():
        place = int(packed.place[row, column - 1])
        number = int((targets.places == place).nonzero())
        assert packed.place[row, :column].tolist() in reads[number]


def test_a_micro_batch_without_sampled_tokens_has_no_targets():
    batch = mixed()
    assert PackedBatch.of(batch.attention, mask=torch.zeros_like(batch.mask)).targets is None
    plan = Planner(True, True, SingleProcess(), torch.device("cpu")).plan(batch)
    assert all(packed.targets is not None for _, _, packed in plan.micro_batches(256))


def test_a_copy_of_a_model_computes_with_its_own_layers(model):
    batch = mixed()
    _, targeted = layouts(batch, 5)
    with torch.no_grad():
        before = hidden_before(model, batch.ids, batch.mask, targeted)
        other = copy.deepcopy(model)
        other.base_model.layers[-1].mlp.down_proj.weight.zero_()
        changed = hidden_before(other, batch.ids, batch.mask, targeted)
        assert torch.equal(hidden_before(model, batch.ids, batch.mask, targeted), before)
    assert not torch.allclose(changed, before)


def test_an_unknown_architecture_computes_its_last_layer_for_all_tokens(policy):
    policy.model.config.model_type = "unknown"
    assert attention.prepared(policy.model)
    assert not last_layer.is_restricted(policy.model.base_model)


def test_a_last_layer_that_disagrees_computes_all_tokens(policy, monkeypatch):
    monkeypatch.setattr(last_layer, "_at_targets", lambda layer, hidden, targets, *rotary: hidden[:, targets.places])
    whole = policy.model.base_model.layers[-1].forward
    assert attention.prepared(policy.model)
    assert not last_layer.is_restricted(policy.model.base_model)
    assert policy.model.base_model.layers[-1].forward == whole
