"""Tiny untrained models, tokenizers and configurations for tests: real checkpoints, created in a second."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import envs
from trainer.config.run import RolloutConfig, RunConfig
from trainer.engines.sampler import SampledResponse
from trainer.policy import pocket
from trainer.policy.chat_format import ANSWER, ANSWER_END, THINK_END, ChatFormat
from trainer.rollout.episode import Episode
from trainer.rollout.prompts import opening_message
from trainer.rollout.trajectory import Trajectory

CHATML = pocket.CHAT_TEMPLATE
LLAMA3 = (
    "{{ '<|begin_of_text|>' }}{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
FORGETFUL = (  # thoughts are removed from earlier answers
    "{% for message in messages %}{% set content = message['content'] %}"
    "{% if message['role'] == 'assistant' and '</think>' in content %}"
    "{% set content = content.split('</think>')[-1].lstrip('\n') %}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
WITHOUT_SYSTEM = (  # and a turn ends with a token that is not the tokenizer's end of sequence
    "{{ '<bos>' }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else 'user') + '\n' }}"
    "{{ message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
SPACED = (  # an older style: no role tokens, a space before the end token, the sequence begun anew at each question
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ ' ' + message['content'] + ' </s>' }}"
    "{% elif message['role'] == 'system' %}{{ '<s>[SYS] ' + message['content'] + ' [/SYS]' }}"
    "{% else %}{{ '<s>[INST] ' + message['content'] + ' [/INST]' }}{% endif %}{% endfor %}"
)
OPENS_THOUGHT = CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")


ENVIRONMENTS = (
    *("Sokoban", "LargeSokoban", "SokobanNewVocab", "Boxoban", "FrozenLake"),
    *("Bandit", "BanditRev", "BanditTest", "WebShop", "Countdown", "MetaMathQA"),
)
"""Named here, so that a new environment does not change the tokens of every test's dialogues."""


def corpus() -> Iterator[str]:
    """Prompts and answers of some environments, enough to train a tokenizer."""
    for name in ENVIRONMENTS:
        yield from [opening_message(envs.spec(name), RolloutConfig())] * 5
    yield from ["Turn 1:\n######\n#_PXO#\nActions left: 10\nReward: -0.1\nI am at 3,4. Push Left from 2,5."] * 20


def bpe(special: list[str], template: str, eos: str, pad: str | None = None) -> PreTrainedTokenizerFast:
    """A small byte-level tokenizer with the given special tokens and chat template; tags are spelt out, not tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=360, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=eos,
        pad_token=pad,
        chat_template=template,
        clean_up_tokenization_spaces=False,
    )


def with_backend(tokenizer: PreTrainedTokenizerFast, data: dict[str, Any]) -> PreTrainedTokenizerFast:
    """The tokenizer with another tokenizer.json."""
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(data)),
        eos_token=tokenizer.eos_token,
        chat_template=tokenizer.chat_template,
        clean_up_tokenization_spaces=False,
    )


def styles() -> dict[str, PreTrainedTokenizerFast]:
    """One tokenizer for each common chat template."""
    chatml, ends = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"], "<|im_end|>"
    llama = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    gemma = ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"]
    return {
        "pocket": pocket.build_tokenizer(corpus()),
        "chatml": bpe(chatml, CHATML, ends, "<|endoftext|>"),
        "llama-3": bpe(llama, LLAMA3, "<|eot_id|>"),
        "thoughts cut from history": bpe(chatml, FORGETFUL, ends),
        "no system role, own end of turn": bpe(gemma, WITHOUT_SYSTEM, "<eos>"),
        "space before the end token": bpe(["<s>", "</s>"], SPACED, "</s>"),
        "opens the thought itself": bpe(chatml, OPENS_THOUGHT, ends),
    }


POCKET_SHAPE = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
"""Half of the layers and a ninth of the parameters: hundreds of tests sample, train and save this policy."""


def save_pocket(folder: Path, seed: int = 0) -> Path:
    """An untrained pocket policy, smaller than the shipped ones."""
    tokenizer = pocket.build_tokenizer(corpus())
    pocket.save(pocket.build_model(tokenizer, seed, **POCKET_SHAPE), tokenizer, folder)
    return folder


def save_llama(folder: Path) -> Path:
    """A Llama of 40,000 parameters, embeddings not tied, whose vocabulary is larger than its tokenizer's."""
    tokenizer = styles()["llama-3"]
    config = LlamaConfig(
        vocab_size=len(tokenizer) + 13,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.convert_tokens_to_ids("<|begin_of_text|>"),
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def config(model: Path | str, **sections: Any) -> RunConfig:
    """A run of seconds: two groups of three, two turns, short responses. `sections` update the defaults."""
    data: dict[str, Any] = {
        "iterations": 2,
        "policy": {"model": str(model), "threads": 1, "device": "cpu"},
        "rollout": {
            "groups": 2,
            "group_size": 3,
            "max_turns": 2,
            "max_actions": 4,
            "max_actions_per_turn": 3,
            "max_response_tokens": 12,
        },
        "algorithm": {"estimator": "grpo"},
        "optimizer": {"mini_batch_trajectories": 3, "micro_batch_tokens": 1024},
        "evaluation": {"prompts": 4, "every": 0},
        "checkpoint": {"every": 1, "keep": 2},
    }
    for name, value in sections.items():
        data[name] = data.get(name, {}) | value if isinstance(value, dict) else value
    return RunConfig.model_validate(data)


def answer(*actions: str, thought: str = "so") -> str:
    """A well-formed response, as it is sampled after the forced `<think>`."""
    return f"{thought}{THINK_END}{ANSWER}{' || '.join(actions)}{ANSWER_END}"


def sampled(chat: ChatFormat, text: str, *, ended: bool = True) -> SampledResponse:
    """A response of this text as a sampler would return it, with a different number for each token."""
    ids = chat.tokenizer.encode(text, add_special_tokens=False) + [chat.eos_id] * ended
    return SampledResponse(ids, [-0.25 - n for n in range(len(ids))], [0.5 + n for n in range(len(ids))], ended)


def episode(chat: ChatFormat, run: RunConfig | None = None, *, seed: int = 0, options: Any = None) -> Episode:
    """An episode of the run's environment (default: Sokoban) at its beginning."""
    run = run or RunConfig()
    env = envs.make(run.environment.name, run.environment.settings)
    env.reset(seed=seed, options=options)
    return Episode(env, run, chat, Trajectory(id="t", group=0, member=0), 2**20)
