"""Sizes of checkpoints from their config.json alone."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from tests.trainer.policy.architectures import ARCHITECTURES, Architecture
from trainer.memory.activations import ActivationBytes, saved
from trainer.policy import pocket, shapes

QWEN3_30B: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151_936,
    "tie_word_embeddings": False,
}
MIXTRAL: dict[str, Any] = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14_336,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32_000,
    "tie_word_embeddings": False,
}

DEEPSEEK_V2_LITE: dict[str, Any] = {
    "model_type": "deepseek_v2",
    "hidden_size": 2048,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "kv_lora_rank": 512,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "intermediate_size": 10_944,
    "moe_intermediate_size": 1408,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "vocab_size": 102_400,
    "tie_word_embeddings": False,
}
PHI_2: dict[str, Any] = {
    "model_type": "phi",
    "hidden_size": 2560,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 10_240,
    "vocab_size": 51_200,
    "tie_word_embeddings": False,
}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return pocket.build_tokenizer([])


@pytest.mark.parametrize(
    "architecture", [each for each in ARCHITECTURES if each.sized and not each.refused], ids=lambda each: each.name
)
def test_parameters_are_those_of_the_checkpoint(
    architecture: Architecture, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    folder = architecture.save(tmp_path, tokenizer)
    shape = shapes.read_folder(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert shape is not None
    assert shape.parameters == pytest.approx(sum(weight.numel() for weight in model.parameters()), rel=0.01)


@pytest.mark.parametrize(
    ("config", "billions"), [(QWEN3_30B, 30.5), (MIXTRAL, 46.7), (DEEPSEEK_V2_LITE, 15.7), (PHI_2, 2.78)]
)
def test_parameters_are_those_published(config: dict[str, Any], billions: float) -> None:
    shape = shapes.read(config)
    assert shape is not None
    assert shape.parameters / 1e9 == pytest.approx(billions, abs=0.05)


def test_a_token_activates_some_experts_and_the_shared_one() -> None:
    shape = shapes.read(MIXTRAL)
    shared = shapes.read(QWEN3_30B | {"n_shared_experts": 2, "first_k_dense_replace": 3})
    assert shape is not None
    assert shared is not None
    assert shape.active_intermediate == 2 * 14_336
    assert shared.experts == shapes.Experts(number=128, active=8, intermediate=768, layers=45, shared=2 * 768)
    assert shared.active_intermediate == max(10 * 768, 6144)
    dense = shapes.read({name: value for name, value in MIXTRAL.items() if "experts" not in name})
    assert dense is not None
    assert saved(dense, ActivationBytes(2)) < saved(shape, ActivationBytes(2)) < 2 * saved(dense, ActivationBytes(2))


def test_adapters_of_all_layers_include_those_of_every_expert() -> None:
    shape = shapes.read(MIXTRAL)
    assert shape is not None
    assert len(list(shape.adapters(8))) == 32 * 2 * (4 + 3 * 8)


@pytest.mark.parametrize(
    "change",
    [
        {"num_experts_per_tok": 200},
        {"num_experts": 10**9},
        {"moe_intermediate_size": -4},
        {"mlp_only_layers": 7},
        {"num_experts": "many"},
        {"kv_lora_rank": 64},
        {"kv_lora_rank": 64, "qk_rope_head_dim": 0, "v_head_dim": 8},
    ],
)
def test_experts_that_cannot_be_are_no_shape(change: dict[str, Any]) -> None:
    assert shapes.read(json.loads(json.dumps(QWEN3_30B | change))) is None


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Qwen/Qwen2.5-0.5B-Instruct", 494_032_768),
        ("Qwen/Qwen2.5-14B", 14_770_033_664),
        ("Qwen/Qwen2.5-32B", 32_763_876_352),
        ("Qwen/Qwen3-0.6B-Base", 596_049_920),
        ("Qwen/Qwen3-1.7B", 1_720_574_976),
        ("Qwen/Qwen3-4B-Instruct-2507", 4_022_468_096),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-14B", 14_768_307_200),
        ("meta-llama/Llama-3.2-1B-Instruct", 1_235_814_400),
        ("meta-llama/Llama-3.2-3B", 3_212_749_824),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", 8_030_261_248),
        ("HuggingFaceTB/SmolLM2-135M", 134_515_008),
        ("HuggingFaceTB/SmolLM2-360M-Instruct", 361_821_120),
        ("HuggingFaceTB/SmolLM2-1.7B", 1_711_376_384),
        ("HuggingFaceTB/SmolLM3-3B", 3_075_098_624),
        ("mistralai/Mistral-7B-Instruct-v0.3", 7_248_023_552),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", 1_777_088_000),
    ],
)
def test_known_models_have_the_published_number_of_parameters(name: str, parameters: int) -> None:
    shape = shapes.find_shape(name)
    assert shape is not None
    assert shape.parameters == parameters


def test_a_downloaded_model_is_known_by_its_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = tmp_path / "models--some--model" / "snapshots" / ("c" * 40)
    snapshot.mkdir(parents=True)
    (tmp_path / "models--some--model" / "refs").mkdir()
    (tmp_path / "models--some--model" / "refs" / "main").write_text("c" * 40, encoding="utf-8")
    (snapshot / "config.json").write_text(json.dumps(QWEN3_30B), encoding="utf-8")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.file_download.constants.HF_HUB_CACHE", str(tmp_path))
    assert shapes.find_shape("some/model") == shapes.read(QWEN3_30B)
    assert shapes.find_shape("some/other-model") is None


def test_attempts_to_reach_the_hub_are_not_printed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreachable(*_: Any, **__: Any) -> str:
        library.warning("Retrying in 1s")
        raise OSError("name resolution")

    library = logging.getLogger("huggingface_hub.utils._http")
    monkeypatch.setattr("huggingface_hub.hf_hub_download", unreachable)
    monkeypatch.setattr(logging.getLogger("huggingface_hub"), "propagate", True)
    assert shapes.hub_shape("someone/some-model") is None
    assert not caplog.records
    library.warning("Retrying in 1s")
    assert len(caplog.records) == 1, "its level is restored"
