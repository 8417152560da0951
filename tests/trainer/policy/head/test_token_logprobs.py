"""Log-probabilities without a tokens × vocabulary tensor: equal values and gradients, less memory."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from trainer.algorithms.losses import entropy_from_logprobs
from trainer.policy.head import logit_kernels, token_logprobs
from trainer.policy.head.token_logprobs import chunk_size, chunked_token_logprobs, head_logprobs


def naive_logprobs(hidden: Tensor, weight: Tensor, ids: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The learner's path for a small vocabulary."""
    logits = (hidden @ weight.t()).float() / temperature
    logprobs = torch.log_softmax(logits, -1)
    return logprobs.gather(-1, ids[:, None])[:, 0], entropy_from_logprobs(logprobs)


@given(
    tokens=st.integers(0, 33),
    vocabulary=st.integers(1, 90),
    largest=st.integers(1, 400),
    temperature=st.floats(0.3, 3.0),
    seed=st.integers(0, 2**20),
)
def test_chunking_changes_neither_values_nor_gradients(
    tokens: int, vocabulary: int, largest: int, temperature: float, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(vocabulary, (tokens,), generator=draw)
    weights = torch.randn(2, tokens, generator=draw)
    gradients = []
    for score in (naive_logprobs, lambda *given: chunked_token_logprobs(*given, largest=largest)):
        hidden = torch.randn(tokens, 7, generator=torch.Generator().manual_seed(seed), requires_grad=True)
        weight = torch.randn(vocabulary, 7, generator=torch.Generator().manual_seed(seed + 1), requires_grad=True)
        logprobs, entropies = score(hidden, weight, ids, temperature)
        (weights[0] * logprobs + weights[1] * entropies).sum().backward()
        gradients.append((logprobs.detach(), entropies.detach(), hidden.grad, weight.grad))
    for mine, theirs in zip(gradients[1], gradients[0], strict=True):
        largest_entry = float(theirs.abs().max()) if theirs.numel() else 0.0  # sums cancel in the smaller ones
        torch.testing.assert_close(mine, theirs, atol=2e-5 * max(1.0, largest_entry), rtol=2e-5)


def test_the_gradient_matches_finite_differences() -> None:
    draw = torch.Generator().manual_seed(3)
    hidden = torch.randn(5, 4, generator=draw, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(9, 4, generator=draw, dtype=torch.float64, requires_grad=True)
    ids = torch.randint(9, (5,), generator=draw)
    torch.autograd.gradcheck(
        lambda h, w: chunked_token_logprobs(h, w, ids, 0.7, largest=18),
        (hidden, weight),
        atol=2e-3,
        rtol=2e-2,
        eps=1e-2,
    )


def test_half_precision_weights_get_gradients_of_their_own_type() -> None:
    hidden = torch.randn(6, 8, dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(40, 8, dtype=torch.bfloat16, requires_grad=True)
    logprobs, entropies = chunked_token_logprobs(hidden, weight, torch.arange(6), largest=80)
    (logprobs + entropies).sum().backward()
    assert logprobs.dtype == entropies.dtype == torch.float32
    assert hidden.grad is not None
    assert weight.grad is not None
    assert hidden.grad.dtype == weight.grad.dtype == torch.bfloat16
    assert torch.isfinite(hidden.grad).all()


def test_no_tokens_by_vocabulary_tensor_is_allocated() -> None:
    tokens, vocabulary, largest = 300, 1000, 8000
    made: list[int] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            made.extend(
                t.numel() for t in (result if isinstance(result, tuple | list) else [result]) if isinstance(t, Tensor)
            )
            return result

    hidden = torch.randn(tokens, 4, requires_grad=True)
    weight = torch.randn(vocabulary, 4, requires_grad=True)
    with Watch():
        logprobs, entropies = chunked_token_logprobs(
            hidden, weight, torch.zeros(tokens, dtype=torch.long), largest=largest
        )
        (logprobs.sum() + entropies.sum()).backward()
    assert max(made) <= largest
    assert len([size for size in made if size == chunk_size(vocabulary, largest) * vocabulary]) >= tokens // 8


@pytest.mark.parametrize("vocabulary, tokens", [(1, 2**25), (151_936, 220), (2**26, 1)])
def test_a_chunk_holds_at_least_one_token(vocabulary: int, tokens: int) -> None:
    assert chunk_size(vocabulary) == tokens


@pytest.mark.nightly
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_compiled_form_equals_the_usual_one(monkeypatch, temperature) -> None:
    """What a GPU computes, compiled for the CPU here."""
    hidden, weight = torch.randn(11, 8), torch.randn(50, 8)
    ids, weights = torch.randint(50, (11,)), torch.randn(2, 11)
    results = []
    for devices in (frozenset(), frozenset({"cpu"})):
        for kernel in (logit_kernels.score, logit_kernels.gradient):
            monkeypatch.setattr(kernel, "devices", devices)
        own = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        scores = chunked_token_logprobs(*own, ids, temperature, largest=200)
        (weights[0] * scores[0] + weights[1] * scores[1]).sum().backward()
        results.append((*(part.detach() for part in scores), own[0].grad, own[1].grad))
    assert logit_kernels.score.failure == logit_kernels.gradient.failure == ""
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_a_device_without_a_compiler_computes_in_the_usual_way(caplog) -> None:
    def broken(logits: Tensor) -> Tensor:
        raise RuntimeError("no compiler was found")

    kernel = logit_kernels.CompiledOnGpu(lambda logits: logits + 1, broken, frozenset({"cpu"}))
    for _ in range(2):
        assert kernel(torch.zeros(1)).tolist() == [1.0]
    assert kernel.failure
    assert caplog.text.count("kernel by kernel") == 1


def test_compiled_chunks_are_larger_in_the_same_memory(monkeypatch) -> None:
    assert token_logprobs.max_logits(torch.zeros(1)) == 2**25
    monkeypatch.setattr(logit_kernels.score, "devices", frozenset({"cpu"}))
    assert token_logprobs.max_logits(torch.zeros(1)) == 2**26
    assert token_logprobs.max_logits(torch.zeros(1, dtype=torch.bfloat16)) == 2**27


@pytest.mark.parametrize("vocabulary", [32, 2**20])
def test_results_are_no_views_of_larger_tensors(vocabulary: int) -> None:
    head, hidden = torch.nn.Linear(4, vocabulary, bias=False), torch.randn(40, 4)
    with torch.no_grad():
        results = head_logprobs(head, hidden, torch.zeros(40, dtype=torch.long))
    assert all(result.untyped_storage().nbytes() == 40 * 4 for result in results), "FSDP2 warns of views"
