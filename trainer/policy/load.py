"""Loading of causal LMs as policies: safetensors only, no remote code."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils.peft_utils import find_adapter_config_file

from trainer.config.run import PolicyConfig


class ModelError(ValueError):
    """A model that cannot be used as a policy. The message says why and what to choose instead."""


@dataclass
class Policy:
    """A causal LM with its tokenizer."""

    model: PreTrainedModel
    tokenizer: Any

    @property
    def context(self) -> int:
        """Maximum length of a dialogue in tokens."""
        return int(getattr(self.model.config.get_text_config(), "max_position_embeddings", 2048))

    @property
    def pad_id(self) -> int:
        pad = self.tokenizer.pad_token_id
        return int(pad if pad is not None else self.tokenizer.eos_token_id)

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())


def pick_device(requested: str) -> torch.device:
    """The device of a run. Raises ModelError when a GPU is requested and there is none."""
    if requested == "cuda" and not torch.cuda.is_available():
        raise ModelError("policy.device is 'cuda' but PyTorch sees no GPU here: choose 'auto' or 'cpu'")
    if requested == "auto":
        requested = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(requested)


def describe_device(device: torch.device) -> str:
    """Name of a device: "NVIDIA H100" or "CPU, 2 threads"."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread" + ("s" if threads > 1 else "")


def is_hub_id(name: str) -> bool:
    """Whether a name that is not a folder has the form of a hub id, OWNER/MODEL; no other name is looked up."""
    return name.count("/") == 1 and not name.startswith((".", "/", "~"))


def load(source: str | Path, config: PolicyConfig) -> Policy:
    """Load a checkpoint folder or a hub id.

    Raises:
        ModelError: no such folder or id, missing or incomplete safetensors, no chat template, or an architecture whose
            logits are more than a linear map of its last hidden state.
    """
    name = str(source)
    if not Path(name).is_dir():
        if not is_hub_id(name):
            raise ModelError(
                f"policy.model: there is no folder {name!r}. Give 'pocket', a folder with a transformers checkpoint, "
                "or a hub id such as Qwen/Qwen2.5-0.5B-Instruct"
            )
    elif not any(Path(name).glob("*.safetensors")):
        raise ModelError(f"policy.model: the folder {name} holds no *.safetensors file; no other format is loaded")
    device = pick_device(config.device)
    try:
        if not Path(name).is_dir() and find_adapter_config_file(name) is not None:
            raise _adapter_error(name)
        AutoConfig.from_pretrained(name, trust_remote_code=False)
        loader = cast(Any, AutoModelForCausalLM)
        model, report = loader.from_pretrained(
            name,
            dtype=getattr(torch, config.dtype),
            use_safetensors=True,
            trust_remote_code=False,
            attn_implementation="sdpa",
            output_loading_info=True,
        )
    except ModelError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(_cannot_load(name, "model", error)) from error
    _check_no_adapter(name, model)
    if missing := sorted(report["missing_keys"]):
        raise ModelError(f"policy.model: {name!r} lacks {len(missing)} of its weights, {missing[0]} for one")
    policy = Policy(model.to(device).eval(), _load_tokenizer(name))
    _check_head(policy)
    return policy


def _check_no_adapter(name: str, model: PreTrainedModel) -> None:
    """Raise ModelError for an adapter on a hub: it names its base model itself, which may be any folder here.

    Checked after loading too: a hub that does not answer looks like one without an adapter, and its branch may change.
    """
    if not Path(name).is_dir() and (getattr(model, "_hf_peft_config_loaded", False) or model.name_or_path != name):
        raise _adapter_error(name)


def _adapter_error(name: str) -> ModelError:
    return ModelError(
        f"policy.model: {name!r} holds an adapter (adapter_config.json), which is not loaded from a hub: merge it "
        "into its base model and name the result"
    )


def _cannot_load(name: str, what: str, error: Exception) -> str:
    hint = ""
    if not Path(name).is_dir():
        hint = " (offline mode is on)" if os.environ.get("HF_HUB_OFFLINE") else " (check the name and the network)"
    return f"policy.model: the {what} of {name!r} cannot be loaded{hint}: {error}"


def _load_tokenizer(name: str) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except Exception as error:  # parsers of broken tokenizer files raise anything, even bare Exception
        raise ModelError(_cannot_load(name, "tokenizer", error)) from error
    sample = "Turn 1"
    written = str(tokenizer.decode(tokenizer.encode(sample, add_special_tokens=False)))
    if sample.lower() not in written.lower():
        raise ModelError(f"policy.model: the tokenizer of {name!r} cannot write plain text: its files are incomplete")
    if tokenizer.chat_template is None:
        raise ModelError(
            f"policy.model: the tokenizer of {name!r} has no chat template: choose an instruction-tuned (chat) model"
        )
    if tokenizer.eos_token_id is None:
        raise ModelError(f"policy.model: the tokenizer of {name!r} has no end-of-sequence token: choose a chat model")
    return tokenizer


def output_head(model: PreTrainedModel) -> nn.Module:
    """The layer that maps the last hidden state to logits."""
    return cast(nn.Module, cast(Any, model).get_output_embeddings())


@torch.no_grad()
def _check_head(policy: Policy) -> None:
    """Check that the model's logits are head(hidden): logits are computed for selected positions only."""
    ids = torch.tensor([[policy.pad_id, policy.tokenizer.eos_token_id, policy.pad_id]], device=policy.model.device)
    whole = policy.model(input_ids=ids).logits
    recomputed = output_head(policy.model)(policy.model.base_model(input_ids=ids).last_hidden_state)
    if not torch.allclose(whole.float(), recomputed.float(), rtol=1e-3, atol=1e-3):
        raise ModelError(
            "policy.model: this architecture transforms its logits after the output layer (soft-capping or scaling), "
            "which is not supported yet: choose a Qwen, Llama or similar model"
        )
