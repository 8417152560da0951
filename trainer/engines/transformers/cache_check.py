"""Check that a model samples with the KV cache of ragged rows as it would without a cache.

Some architectures keep other state than keys and values, or read masks and positions differently. If sampling would
differ from the update's computation, the run is refused before it starts.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedModel

from trainer.engines.sampler import SamplingParams
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.policy.attention_window import attention_window, shortened_window
from trainer.policy.load import ModelError

_WINDOW = 3
_PREFILLED = (7, 4)
"""Tokens of the two rows before the single steps; more than the shortened window."""
_STEPS = 3
_TOLERANCE = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}


@torch.no_grad()
def check_cache(model: PreTrainedModel) -> None:
    """Compare the hidden states of two short rows, read in parts with the cache, with the states of whole passes.

    Raises:
        ModelError: they differ, or the model cannot be run with this cache.
    """
    kind = model.config.get_text_config().model_type
    if others := attention_window(model).others:
        raise ModelError(
            f"policy.model: the architecture {kind} has layers of the kind {', '.join(others)}, whose state the "
            "sampler of engine.name=transformers cannot keep for dialogues of different lengths: choose a model whose "
            "layers are all attention, such as Qwen3 or Llama"
        )
    try:
        with shortened_window(model, _WINDOW):
            agrees = _agrees(model)
    except (AttributeError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        raise ModelError(
            f"policy.model: the architecture {kind} cannot be run with the sampler's KV cache "
            f"({type(error).__name__}: {error}): choose a Qwen, Llama, Mistral, Gemma 3 or similar model"
        ) from error
    if not agrees:
        raise ModelError(
            f"policy.model: the architecture {kind} gives other results with the sampler's KV cache than without, so "
            "that it would learn from probabilities that are not its own: choose a Qwen, Llama, Mistral, Gemma 3 or "
            "similar model"
        )


def _agrees(model: PreTrainedModel) -> bool:
    vocabulary = model.config.get_text_config().vocab_size
    rows = [
        [(7 * position + 3 * row + 1) % vocabulary for position in range(length + _STEPS)]
        for row, length in enumerate(_PREFILLED)
    ]
    with_cache = _last_states(model, rows)
    passes = [model.base_model(input_ids=torch.tensor([ids], device=model.device), use_cache=False) for ids in rows]
    whole = torch.stack([output.last_hidden_state[0, -1] for output in passes]).float()
    return bool((with_cache - whole).norm() <= _TOLERANCE[model.dtype] * whole.norm())


def _last_states(model: PreTrainedModel, rows: list[list[int]]) -> Tensor:
    """Return (n, H) hidden states after each row's last token, read up to its step tokens and then one at a time."""
    sampler = TransformersSampler(model, eos_id=0, threads=0)
    session = sampler.thread_session(range(len(rows)), SamplingParams(max_tokens=_STEPS), None, [0] * len(rows))
    session.cache.reserve(max(map(len, rows)))
    slots = range(len(rows))
    states = session.read(slots, [ids[:-_STEPS] for ids in rows])
    for step in range(-_STEPS, 0):
        states = session.read(slots, [[ids[step]] for ids in rows])
    return states.float()
