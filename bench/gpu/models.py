"""Models with random weights for the parts of the GPU benchmark, and a checkpoint folder with a tokenizer."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoTokenizer, PreTrainedModel, Qwen2ForCausalLM

from bench.gpu.options import Settings
from bench.lib.random_models import build_config
from trainer.paths import POCKET_CHECKPOINT
from trainer.policy.load import prepare_device

GIB = 2**30


def build(settings: Settings, **changes: int) -> PreTrainedModel:
    """Build a model of the shape on its device: the benchmark compares no weights between devices.

    Args:
        changes: changes of the configuration.
    """
    config = build_config(settings.shape)
    for name, value in changes.items():
        setattr(config, name, value)
    prepare_device(torch.device(settings.device))
    previous_dtype = torch.get_default_dtype()
    torch.manual_seed(0)
    try:
        torch.set_default_dtype(settings.torch_dtype)
        with torch.device(settings.device):
            return Qwen2ForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(previous_dtype)


def save_checkpoint(settings: Settings, folder: Path) -> Path:
    """Write a checkpoint of the shape with the pocket policy's byte-level tokenizer, which uses few ids."""
    tokenizer = AutoTokenizer.from_pretrained(POCKET_CHECKPOINT)
    vocabulary = max(build_config(settings.shape).vocab_size, -(-len(tokenizer) // 64) * 64)
    model = build(
        settings,
        vocab_size=vocabulary,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
