"""Packed rows: equal values and steps for any lengths."""

import pytest
import torch

from tests.trainer.learner.test_learner import batch_of, learner_for, weights
from tests.trainer.steps import variants
from trainer.config.run import PolicyConfig
from trainer.policy.load import ModelError, load
from trainer.policy.packing import attention, segment_attention


def learner_with(folder, on, **optimizer):
    sgd = {"mini_batch_trajectories": 6, "name": "sgd", "policy_lr": 0.1, "critic_lr": 0.1}
    with variants("separate", *(["packed"] if on else [])):
        return learner_for(folder, algorithm={"estimator": "gae"}, optimizer=sgd | optimizer)


@pytest.mark.parametrize("model", ["pocket", "llama"])
@pytest.mark.parametrize("recomputed", [False, True])
def test_packed_rows_give_the_same_step_as_padded_ones(pocket_folder, llama_folder, model, recomputed):
    folder = {"pocket": pocket_folder, "llama": llama_folder}[model]
    found = []
    for on in (False, True):
        learner = learner_with(folder, on, gradient_checkpointing=recomputed)
        batch = batch_of(learner, [1, 0, 0.5, 0, 2, 1])
        torch.nn.init.normal_(learner.critic.head.weight, std=0.1, generator=torch.Generator().manual_seed(0))
        before = learner.score(batch), learner.values(batch)
        metrics = learner.update(batch, 1)
        found.append((before, metrics, weights(learner), learner.critic.head.weight.detach()))
    (padded, metrics, moved, critic), (packed, others, also, other) = found
    assert torch.allclose(padded[0].logprobs, packed[0].logprobs, rtol=0, atol=1e-5)
    assert torch.allclose(padded[0].entropies, packed[0].entropies, rtol=0, atol=1e-5)
    assert torch.allclose(padded[1], packed[1], rtol=0, atol=1e-5)
    assert torch.allclose(moved, also, rtol=0, atol=1e-5)
    assert torch.allclose(critic, other, rtol=0, atol=1e-5)
    assert others == pytest.approx(metrics, rel=1e-3, abs=1e-5)


def test_no_layer_but_attention_sees_padding(pocket_folder):
    learner = learner_with(pocket_folder, True)
    batch = batch_of(learner, [1, 0, 0, 0, 1, 0])
    seen = []
    mlp = learner.policy.model.base_model.layers[0].mlp
    mlp.register_forward_hook(lambda module, given, out: seen.append(given[0].shape[0] * given[0].shape[1]))
    learner.score(batch)
    assert sum(seen) == int(batch.attention.sum()) < batch.attention.numel()


def test_an_architecture_that_cannot_be_packed_is_refused_with_advice(policy):
    policy.model.config.sliding_window = 4
    policy.model.config.use_sliding_window = True
    with pytest.raises(ModelError, match=r"row by row .* take packed out of ECHOSCOPE_UPDATE_VARIANTS"):
        attention.prepare(policy.model)
    assert not attention.prepared(policy.model)
    assert policy.model.config._attn_implementation == "sdpa"


def test_layers_mixing_tokens_outside_attention_are_detected(policy):
    class Mixing(torch.nn.Module):
        """Mixes neighbouring tokens, like a convolution over the row."""

        def forward(self, hidden):
            return hidden + hidden.cumsum(1)

    policy.model.base_model.layers[0].mlp = Mixing()
    assert not attention.prepared(policy.model)
    assert policy.model.config._attn_implementation == "sdpa"


def test_an_unsupported_device_leaves_the_model_unchanged(policy, monkeypatch):
    def refused(*arguments, **named):
        raise RuntimeError("no kernel for these inputs")

    before = policy.model.config._attn_implementation
    monkeypatch.setattr(segment_attention, "scaled_dot_product_attention", refused)
    assert not attention.prepared(policy.model)
    assert policy.model.config._attn_implementation == before


def test_a_prepared_model_is_bit_identical_on_other_inputs(policy):
    model = policy.model
    ids = torch.randint(5, 300, (3, 20), generator=torch.Generator().manual_seed(0))
    padded = torch.ones_like(ids)
    padded[0, :6] = 0

    @torch.no_grad()
    def found():
        drawn = model.generate(input_ids=ids, attention_mask=padded, max_new_tokens=8, do_sample=False)
        return model(input_ids=ids).logits, model(input_ids=ids, attention_mask=padded).logits, drawn

    before = found()
    assert attention.prepared(model)
    assert all(torch.equal(one, other) for one, other in zip(before, found(), strict=True))


def test_a_saved_model_has_no_trace_of_packing(policy, tmp_path):
    assert attention.prepared(policy.model)
    policy.model.save_pretrained(tmp_path)
    policy.tokenizer.save_pretrained(tmp_path)
    name = policy.model.config._attn_implementation
    assert all(name not in file.read_text() for file in tmp_path.glob("*.json"))
    assert load(tmp_path, PolicyConfig()).model.config._attn_implementation == "sdpa"
