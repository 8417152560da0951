"""Pocket policy: a Qwen2-architecture causal LM of about a million parameters with its own byte-level tokenizer.

It is saved as an ordinary transformers checkpoint.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
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
# One token per grid symbol, digit and capital, so that each cell of a board is one token; words are merged as usual.
_PIECES = r" ?\|\|| ?[A-Z]?[a-z]+|[A-Z]|\d| ?[^\sA-Za-z\d]|\n|\s+"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tokenizer(corpus: Iterable[str], size: int = VOCABULARY) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with ChatML's special tokens; the tags of an answer are one (plain) token each."""
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


def _as_loaded(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """The tokenizer as transformers loads it, which uses its own pre-tokenizer for every Qwen2 checkpoint.

    The merges were learnt from finer pieces, so our texts become the same tokens.
    """
    with TemporaryDirectory() as name:
        tokenizer.save_pretrained(name)
        Qwen2Config().save_pretrained(name)
        loaded = AutoTokenizer.from_pretrained(name)
    assert isinstance(loaded, PreTrainedTokenizerFast)
    return loaded


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int, **shape: Any) -> Qwen2ForCausalLM:
    """Randomly initialised weights, reproducible by seed; the global random generator is left unchanged.

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


def save(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """An ordinary checkpoint folder with bf16 safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    rounded = copy.deepcopy(model)
    rounded.bfloat16()
    rounded.save_pretrained(folder)
