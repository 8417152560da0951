"""Estimated memory of whole runs on a CPU, and their measured peak."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from bench.real_model import peak_memory
from tests.trainer import tiny
from trainer.memory.estimate import PROCESS_BYTES

SIZES = {
    "deep": {"vocab_size": 2048, "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 8},
    "wide vocabulary": {"vocab_size": 32_768, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 3},
}


@pytest.mark.parametrize(
    ("size", "kind", "dtype"),
    [
        ("wide vocabulary", "train", "float32"),
        ("deep", "train", "bfloat16"),
        ("wide vocabulary", "ppo", "float32"),
        ("deep", "ppo", "float32"),
    ],
)
@pytest.mark.nightly
def test_the_peak_of_a_run_is_within_a_fifth_of_its_estimate(size: str, kind: str, dtype: str, tmp_path: Path) -> None:
    """The peak includes the process, as the estimate does; in a test it takes more than in `python -m trainer`."""
    tokenizer = tiny.styles()["chatml"]
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024}
    model = LlamaForCausalLM(LlamaConfig(**SIZES[size], **heads, tie_word_embeddings=True))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    del model
    run = peak_memory.measure(tmp_path, kind, (f"policy.dtype={dtype}",))
    assert run.peak == pytest.approx(run.estimate - PROCESS_BYTES + run.base, rel=0.2)
