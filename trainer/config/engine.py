"""Generation engine section of RunConfig."""

from __future__ import annotations

import os
from typing import Annotated, Literal, Self

from pydantic import field_validator, model_validator

from envs.text_roles import TextRole
from trainer.config.base import Section, TextList, base_url, setting
from trainer.config.conditions import HOSTED_ANSWERS, NoEffect, is_none_of

WEIGHTS_VARIABLE = "ECHOSCOPE_ENGINE_WEIGHTS"
"""Environment variable with the folder for weights between learner and servers; the default is the run's folder."""
MAX_ROWS = 256
"""Sequences that a vLLM engine or server generates at once; the others queue."""
LOGPROBS_MODE = "processed_logprobs"
"""Mode in which vLLM reports log-probabilities: under the tempered distribution."""
EAGER_VARIABLE = "ECHOSCOPE_ENGINE_EAGER"
"""Environment variable that, if it is 1, switches off compilation and CUDA graphs on a GPU."""
CPU_CACHE_VARIABLE = "VLLM_CPU_KVCACHE_SPACE"
"""vLLM's environment variable with the GiB of a KV cache on the CPU."""


class EngineConfig(Section):
    """Engine that generates the policy's responses; docs/engines.md has measurements of vLLM."""

    no_effect = (
        HOSTED_ANSWERS,
        NoEffect(
            (is_none_of("engine.name", ("server",)),),
            "only the engine “server” uses it, not “{engine.name}”",
            ("urls",),
        ),
        NoEffect(
            (is_none_of("engine.name", ("vllm",)),),
            "only the engine “vllm” uses it, not “{engine.name}”",
            ("gpu_memory_utilization",),
        ),
    )

    name: Literal["transformers", "vllm", "server"] = setting(
        "transformers",
        "transformers: in the trainer's own process, nothing else to install; vllm: a vLLM engine next to the learner, "
        "for GPUs and models from about 0.5B; server: vLLM servers started by `python -m trainer serve-vllm`. The last "
        "two need algorithm.tis_cap=2.",
    )
    urls: Annotated[TextList, TextRole.URL] = setting(
        [],
        "Addresses of the servers, for engine.name=server, as in http://gpu1:8000. On a site, only those that its "
        "operator lists.",
    )
    gpu_memory_utilization: float = setting(
        0.4,
        "Share of the GPU's memory for a vLLM engine next to the learner: weights and KV cache.",
        gt=0,
        le=0.95,
    )

    @field_validator("urls")
    @classmethod
    def check_addresses(cls, value: list[str]) -> list[str]:
        """Require addresses without credentials, query or duplicates; drop trailing slashes and /v1."""
        cleaned = [base_url(url, "http://gpu1:8000").removesuffix("/v1") for url in value]
        if len(set(cleaned)) < len(cleaned):
            raise ValueError("lists the same server twice")
        return cleaned

    @model_validator(mode="after")
    def check_servers(self) -> Self:
        """Require addresses for the engine `server`."""
        if self.name == "server" and not self.urls:
            raise ValueError("engine.name is 'server', but engine.urls is empty: start a server, see docs/engines.md")
        return self

    @property
    def eager(self) -> bool:
        """True if there is no compilation and no CUDA graph. Raises ValueError unless the variable is 0 or 1."""
        text = os.environ.get(EAGER_VARIABLE, "").strip()
        if text not in ("", "0", "1"):
            raise ValueError(f"{EAGER_VARIABLE} must be 0 or 1, not {text!r}")
        return text == "1"

    @property
    def cpu_cache_bytes(self) -> int:
        """KV cache of a vLLM engine on the CPU. Raises ValueError if vLLM's variable is not a whole number."""
        text = os.environ.get(CPU_CACHE_VARIABLE, "1")
        if not text.isdecimal() or int(text) == 0:
            raise ValueError(f"{CPU_CACHE_VARIABLE} must be a whole number of GiB above 0, not {text!r}")
        return int(text) * 2**30

    @property
    def foreign(self) -> bool:
        """True if another engine than the trainer's own model samples the tokens."""
        return self.name != "transformers"
