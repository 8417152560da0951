"""Pocket policy: a Qwen2-architecture causal LM of about a million parameters with a byte-level tokenizer.

It is saved as an ordinary transformers checkpoint.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from trainer.policy.chat_format import ANSWER, ANSWER_END, THINK, THINK_END

VOCABULARY = 640
CONTEXT = 2048
SHAPE: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 448,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
# One token per grid symbol, digit and capital, so that each cell of a board is one token; other text merges as usual.
_PIECES = r" ?\|\|| ?[A-Z]?[a-z]+|[A-Z]|\d| ?[^\sA-Za-z\d]|\n|\s+"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tokenizer(corpus: Iterable[str], size: int = VOCABULARY) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer with ChatML's special tokens; each tag of an answer is one (plain) token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tags = [THINK, THINK_END, ANSWER, ANSWER_END]
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(tags),
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in tags])
    built = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    return _as_loaded(built)


def is_pocket(tokenizer: Any) -> bool:
    """True if `build_tokenizer` made the tokenizer, as for every policy trained from a pocket policy."""
    added = {token.content for token in tokenizer.added_tokens_decoder.values()}
    return getattr(tokenizer, "chat_template", None) == CHAT_TEMPLATE and added >= {
        THINK,
        THINK_END,
        ANSWER,
        ANSWER_END,
    }


def _as_loaded(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """Return the tokenizer as transformers loads it, with its own pre-tokenizer for every Qwen2 checkpoint.

    The merges were learnt from finer pieces, so our texts become the same tokens.
    """
    with TemporaryDirectory() as name:
        tokenizer.save_pretrained(name)
        Qwen2Config().save_pretrained(name)
        loaded = AutoTokenizer.from_pretrained(name)
    assert isinstance(loaded, PreTrainedTokenizerFast)
    return loaded


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int, **shape: Any) -> Qwen2ForCausalLM:
    """Build a model with random weights, reproducible by seed; the global random generator is left unchanged.

    Args:
        shape: changes of the configuration: hidden_size, intermediate_size, num_hidden_layers and so on.
    """
    config = Qwen2Config(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        **{**SHAPE, **shape},
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        attention_dropout=0.0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(config)


LOOK_BACK = 6.0
"""Size of the biases that make a head look back: large enough for one of a few hundred tokens to stand out."""


def look_back(model: Qwen2ForCausalLM, distances: Sequence[int]) -> None:
    """Make heads of the first layer start by attending to the token a given number of tokens back.

    Queries and keys are rotated by their positions, so that constant ones, rotated against each other by a distance,
    score highest at that distance. Without this start, a model of this size finds such heads only after thousands of
    steps. The heads are trained like all others.

    Args:
        model: changed in place.
        distances: one for each head, from the first; the other heads do not change.

    Raises:
        ValueError: more distances than heads.
    """
    attention, config = model.model.layers[0].self_attn, model.config
    size = int(attention.head_dim)
    if len(distances) > config.num_attention_heads:
        raise ValueError(
            f"{len(distances)} distances for {config.num_attention_heads} heads; give one for each at most"
        )
    half = size // 2
    frequencies = model.model.rotary_emb.inv_freq
    shared = config.num_attention_heads // (config.num_key_value_heads or config.num_attention_heads)
    with torch.no_grad():
        queries = attention.q_proj.bias.view(-1, size)
        keys = attention.k_proj.bias.view(-1, size)
        for head, distance in enumerate(distances):
            keys[head // shared, :half], keys[head // shared, half:] = LOOK_BACK, 0.0
            angles = -distance * frequencies
            queries[head, :half], queries[head, half:] = LOOK_BACK * angles.cos(), LOOK_BACK * angles.sin()


MATCH, CARRIED, COPIED = 2.0, 0.04, 0.2
"""Sizes of the weights of an induction head: for queries and keys, for the previous token that a token carries, and for
the copied token."""


def induction_head(model: Qwen2ForCausalLM, seed: int) -> None:
    """Make the model start with an induction head, which continues a repeated text as before.

    The first layer's first head writes the previous token into a separate subspace. The second layer's first head looks
    for tokens with the current token in that subspace, and copies them. Both are weak and inexact: training on text to
    copy makes them reliable within some hundred steps, whereas forming them takes thousands [Olsson et al. 2022,
    "In-context learning and induction heads"; Trockman and Kolter 2023, "Mimetic initialization"].

    Args:
        model: changed in place; its hidden size is at least twice a head's size.
        seed: seed of the subspaces.
    """
    look_back(model, (1,))
    previous, match = model.model.layers[0].self_attn, model.model.layers[1].self_attn
    size, hidden = int(previous.head_dim), model.config.hidden_size
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(hidden, hidden, generator=generator))[0].T
    current, carried = basis[:size], basis[size : 2 * size]
    copied = torch.linalg.qr(torch.randn(hidden, size, generator=generator))[0].T
    # Rotation by position leaves the second half of a head's pairs nearly unchanged at the distances of a dialogue.
    steady = (torch.arange(size) % (size // 2) >= size // 4).unsqueeze(1)
    with torch.no_grad():
        previous.v_proj.weight[:size] = current
        previous.o_proj.weight[:, :size] = CARRIED * carried.T
        match.q_proj.weight[:size] = MATCH * current * steady
        match.k_proj.weight[:size] = MATCH * carried * steady
        match.v_proj.weight[:size] = copied
        match.o_proj.weight[:, :size] = COPIED * copied.T


def save(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write an ordinary checkpoint folder with bf16 safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    rounded = copy.deepcopy(model)
    rounded.bfloat16()
    rounded.save_pretrained(folder)
