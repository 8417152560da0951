"""Loading of causal LMs as policies: safetensors only, no remote code."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PretrainedConfig, PreTrainedModel
from transformers.utils.peft_utils import find_adapter_config_file

from trainer.config.base import is_hub_id as is_hub_id
from trainer.config.catalogue import catalogue
from trainer.config.run import PolicyConfig
from trainer.models import check, store
from trainer.policy.head.output_head import output_head as output_head


class ModelError(ValueError):
    """A model cannot be used as a policy. The message gives the reason, and alternatives."""


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
    def end_ids(self) -> frozenset[int]:
        """Tokens that end a text according to the model's files (`eos_token_id` of generation_config.json).

        Chat models often name two: the end token of a turn, and the end token of documents in pretraining.
        """
        generation = self.model.generation_config
        named = generation.eos_token_id if generation is not None else None
        ids = named if isinstance(named, Sequence) else [] if named is None else [named]
        return frozenset(int(token) for token in ids)

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())


def pick_device(requested: str) -> torch.device:
    """Return the device of a run. Raises ModelError if a GPU is requested and there is none."""
    if requested == "cuda" and not torch.cuda.is_available():
        raise ModelError("policy.device is 'cuda' but PyTorch sees no GPU here: choose 'auto' or 'cpu'")
    if requested == "auto":
        requested = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(requested)


def prepare_device(device: torch.device) -> None:
    """Choose kernels for a device that runs models with varying shapes.

    cuDNN's attention plans every new shape before it computes it, and sampling and packed rows have new shapes all the
    time. PyTorch's other kernels do not.
    """
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)


_BFLOAT16_KERNELS = ("amx_bf16", "avx512_bf16", "bf16")
"""Capabilities of x86 and ARM processors with products of bfloat16 matrices."""


def slow_precision_notice(model: PreTrainedModel) -> str | None:
    """Return advice for a model in bfloat16 on a processor without instructions for it; otherwise None.

    PyTorch then converts every operand: SmolLM2-135M learned 117 tokens/s in float32 and 33 in bfloat16 on such a core.
    """
    capabilities = torch.cpu.get_capabilities()
    if model.device.type != "cpu" or model.dtype != torch.bfloat16 or any(map(capabilities.get, _BFLOAT16_KERNELS)):
        return None
    return (
        "This processor has no instructions for bfloat16 (policy.dtype), and takes about 3 times as long as with "
        "float32. Use policy.dtype=float32 if the memory suffices."
    )


def describe_device(device: torch.device) -> str:
    """Return the name of a device: "NVIDIA H100" or "CPU, 2 threads"."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread" + ("s" if threads > 1 else "")


def get_revision(config: PolicyConfig) -> dict[str, str]:
    """Return the keyword of transformers for the version of a hub id; empty for its main branch."""
    return {"revision": config.revision} if config.revision else {}


def _folder_or_hub_id(name: str, revision: str) -> str:
    """Return the folder of a checkpoint or of an installed model, or a hub id that is not installed.

    An installed model is not removed while this process runs. Raises ModelError for any other name.
    """
    if Path(name).is_dir():
        store.hold(Path(name))
        return name
    if folder := store.find(name, revision):
        store.hold(folder)
        return str(folder)
    if is_hub_id(name):
        return name
    if name in catalogue():
        raise ModelError(f"policy.model: the model {name} is not installed here. Install it with: {store.FETCH} {name}")
    raise ModelError(
        f"policy.model: there is no folder {name!r} and no installed model of that name. Give 'pocket', a model of "
        "`python -m trainer models list`, a folder with a transformers checkpoint, or a hub id such as "
        "Qwen/Qwen2.5-0.5B-Instruct"
    )


def load(source: str | Path, config: PolicyConfig) -> Policy:
    """Load a checkpoint folder, an installed model or a hub id; an installed copy of a hub id is preferred.

    Raises:
        ModelError: no such folder, model or id, missing or incomplete safetensors, no chat template, or logits that are
            more than a linear map of the last hidden state.
    """
    name = _folder_or_hub_id(str(source), config.revision)
    if Path(name).is_dir() and not any(Path(name).glob("*.safetensors")):
        raise ModelError(f"policy.model: the folder {name} holds no *.safetensors file; no other format is loaded")
    device = pick_device(config.device)
    prepare_device(device)
    version = {} if Path(name).is_dir() else get_revision(config)
    try:
        if not Path(name).is_dir() and find_adapter_config_file(name, revision=version.get("revision")) is not None:
            raise _adapter_error(name)
        _check_architecture(name, AutoConfig.from_pretrained(name, trust_remote_code=False, **version))
        loader = cast(Any, AutoModelForCausalLM)
        model, report = loader.from_pretrained(
            name,
            dtype=getattr(torch, config.dtype),
            use_safetensors=True,
            trust_remote_code=False,
            attn_implementation="sdpa",
            output_loading_info=True,
            **version,
        )
    except ModelError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(_cannot_load(name, "model", error)) from error
    _check_no_adapter(name, model)
    if missing := sorted(report["missing_keys"]):
        raise ModelError(f"policy.model: {name!r} lacks {len(missing)} of its weights, {missing[0]} for one")
    model = model.to(device).eval()
    _align(model)
    policy = Policy(model, _load_tokenizer(name, version))
    _check_head(policy)
    return policy


_ALIGNMENT = 64  # bytes, as in torch


def _align(model: torch.nn.Module) -> None:
    """Copy unaligned weights of a mapped file, such as float32 ones.

    Some kernels round differently on unaligned memory, so that a resumed run would differ from an uninterrupted one in
    the last bit."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.data_ptr() % _ALIGNMENT:
            tensor.data = tensor.data.clone()


_CHOOSE = "Choose a Qwen, Llama, Mistral, Gemma 3, Granite or similar model"


def _check_architecture(name: str, config: PretrainedConfig) -> None:
    """Raise ModelError, before any weight is read, for an architecture that cannot be a policy."""
    text, classes = config.get_text_config(), cast(Any, AutoModelForCausalLM)._model_mapping
    about = f"policy.model: {name!r} is of the architecture {text.model_type}"
    if type(config) not in classes:
        raise ModelError(f"{about}, which is no causal LM. {_CHOOSE}")
    for setting, what in (("attn_logit_softcapping", "attention scores"), ("final_logit_softcapping", "logits")):
        if getattr(text, setting, None):
            raise ModelError(f"{about}, which soft-caps its {what}: the update does not compute that. {_CHOOSE}")
    if not getattr(classes[type(config)], "_supports_sdpa", True):
        raise ModelError(
            f"{about}, whose attention is more than scaled dot products (attention sinks, for one), which sampling and "
            f"update need. {_CHOOSE}"
        )


def _check_no_adapter(name: str, model: PreTrainedModel) -> None:
    """Raise ModelError for an adapter on a hub: it names its base model itself, which may be any folder here.

    This is also checked after loading: a hub that does not answer looks like one without an adapter, and its branch may
    change.
    """
    if not Path(name).is_dir() and (getattr(model, "_hf_peft_config_loaded", False) or model.name_or_path != name):
        raise _adapter_error(name)


def _adapter_error(name: str) -> ModelError:
    return ModelError(
        f"policy.model: {name!r} holds an adapter (adapter_config.json), which is not loaded from a hub: merge it "
        "into its base model and name the result"
    )


def _cannot_load(name: str, what: str, error: Exception) -> str:
    if "trust_remote_code" in str(error):
        return (
            f"policy.model: the {what} of {name!r} needs Python code from its repository, which is never run here: "
            "choose a model of an architecture that transformers has itself"
        )
    hint = ""
    if not Path(name).is_dir():
        hint = " (offline mode is on)" if os.environ.get("HF_HUB_OFFLINE") else " (check the name and the network)"
    reason = check.tokenizer_problem(error) if what == "tokenizer" else error
    return f"policy.model: the {what} of {name!r} cannot be loaded{hint}: {reason}"


def _load_tokenizer(name: str, version: Mapping[str, str]) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, **version)
    except Exception as error:  # parsers of broken tokenizer files raise anything, even bare Exception
        raise ModelError(_cannot_load(name, "tokenizer", error)) from error
    sample = "Turn 1"
    written = str(tokenizer.decode(tokenizer.encode(sample, add_special_tokens=False)))
    if sample.lower() not in written.lower():
        raise ModelError(
            f"policy.model: the tokenizer of {name!r} cannot write plain text: its files are incomplete; add "
            "tokenizer.json of the original model"
        )
    if tokenizer.chat_template is None:
        raise ModelError(
            f"policy.model: the tokenizer of {name!r} has no chat template: choose an instruction-tuned (chat) model"
        )
    if tokenizer.eos_token_id is None:
        raise ModelError(f"policy.model: the tokenizer of {name!r} has no end-of-sequence token: choose a chat model")
    return tokenizer


@torch.no_grad()
def _check_head(policy: Policy) -> None:
    """Check that the model's logits are head(hidden), because logits are computed for selected positions only."""
    model = policy.model
    kind = model.config.get_text_config().model_type
    if model.base_model is model:
        raise ModelError(
            f"policy.model: the model is of the architecture {kind}, whose decoder is not separate from its output "
            f"layer in transformers, as the update needs. {_CHOOSE}"
        )
    ids = torch.tensor([[policy.pad_id, policy.tokenizer.eos_token_id, policy.pad_id]], device=model.device)
    try:
        whole = model(input_ids=ids).logits
        recomputed = output_head(model)(model.base_model(input_ids=ids).last_hidden_state).to(whole.dtype)
    except torch.OutOfMemoryError:  # a RuntimeError, but with a clear message
        raise
    except (AttributeError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        raise ModelError(
            f"policy.model: the model, of the architecture {kind}, cannot compute the logits of three tokens "
            f"({type(error).__name__}: {error}): its configuration may be incomplete. {_CHOOSE}"
        ) from error
    if not torch.allclose(whole.float(), recomputed.float(), rtol=1e-3, atol=1e-3):
        raise ModelError(
            "policy.model: this architecture transforms its logits after the output layer in a way that the update "
            "does not compute: choose a Qwen, Llama, Granite or similar model"
        )
