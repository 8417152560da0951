"""Facts about model families that a GGUF file does not contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainer.models.store import ModelStoreError

_TEMPLATES = Path(__file__).parent / "templates"

TEMPLATES: Mapping[str, str] = {
    "chatml": "Qwen2, SmolLM2 and many others: <|im_start|>role … <|im_end|>",
    "gemma": "Gemma: <start_of_turn>role … <end_of_turn>",
    "llama3": "Llama 3: <|start_header_id|>role<|end_header_id|> … <|eot_id|>",
}
"""Chat templates that can be added to a model without one, with what they look like."""

END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>", "<eos>")
"""Tokens that end a response, in the vocabularies of the supported families."""


@dataclass(frozen=True)
class Family:
    """What an architecture of llama.cpp is in transformers.

    Attributes:
        model_type: of the configuration.
        architecture: class of the model.
        default_template: key of TEMPLATES for a file without a chat template; "" if there is no safe choice.
        template_token: a token without which the default template makes no sense.
    """

    model_type: str
    architecture: str
    default_template: str = ""
    template_token: str = ""


FAMILIES: Mapping[str, Family] = {
    "llama": Family("llama", "LlamaForCausalLM"),
    "qwen2": Family("qwen2", "Qwen2ForCausalLM"),
    "qwen3": Family("qwen3", "Qwen3ForCausalLM"),
    "gemma3": Family("gemma3_text", "Gemma3ForCausalLM", "gemma", "<start_of_turn>"),
}
"""Supported architectures by llama.cpp's names."""


def get_family(architecture: str) -> Family:
    """Return the family of an architecture. Raises ModelStoreError for one that cannot be imported."""
    if architecture not in FAMILIES:
        raise ModelStoreError(
            f"GGUF files of the architecture {architecture or 'unknown'!r} cannot be imported, only "
            f"{', '.join(FAMILIES)} (Llama, SmolLM2, Mistral, Qwen2.5, Qwen3, Gemma 3): fetch the model from the Hub"
        )
    return FAMILIES[architecture]


def template_text(name: str) -> str:
    """Return the chat template of a key of TEMPLATES, in Jinja. Raises ModelStoreError for another name."""
    if name not in TEMPLATES:
        raise ModelStoreError(f"there is no chat template {name!r}: choose one of {', '.join(TEMPLATES)}")
    return (_TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8").rstrip("\n")
