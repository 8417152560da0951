"""The section of RunConfig about the engine that generates. Only settings: the engines are in trainer/samplers."""

from __future__ import annotations

from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import field_validator, model_validator

from trainer.config.base import Section, setting


class EngineConfig(Section):
    """What generates the policy's responses. The figures of vLLM are those of docs/engines.md."""

    name: Literal["transformers", "vllm", "server"] = setting(
        "transformers",
        "transformers: in the trainer's own process, nothing else to install; vllm: a vLLM engine beside the learner, "
        "for GPUs and models from about 0.5B; server: vLLM servers started by `python -m trainer serve-vllm`. The two "
        "last want algorithm.tis_cap=2.",
    )
    urls: list[str] = setting([], "Of engine.name=server: where the servers are, as in http://gpu1:8000.")
    memory: float = setting(
        0.4, "Share of the GPU's memory for a vLLM engine beside the learner: weights and cache.", gt=0, le=0.95
    )
    cache_gib: float = setting(
        1.0, "Keys and values of a vLLM engine on the CPU, in memory.", unit="GiB", gt=0, le=1024
    )
    rows: int = setting(256, "Most dialogues that vLLM continues at once; the others wait.", gt=0, le=65_536)
    eager: bool = setting(
        False, "vLLM starts sooner but is slower on a GPU: nothing is compiled. On a CPU it is always so."
    )
    sleep: bool = setting(True, "A vLLM engine leaves the GPU's memory to the learner between rollouts.")
    patience: float = setting(
        300.0, "How long a server may stay away before the run ends.", unit="seconds", gt=0, le=86_400
    )
    weights: str = setting(
        "", "Folder that learner and servers both see, for the weights to pass through; empty = in the run's folder."
    )

    @field_validator("urls", mode="before")
    @classmethod
    def one_or_several(cls, value: Any) -> Any:
        """A single address is a list of one."""
        return [value] if isinstance(value, str) else value

    @field_validator("urls")
    @classmethod
    def addresses(cls, value: list[str]) -> list[str]:
        cleaned = [url.strip().rstrip("/").removesuffix("/v1") for url in value]
        for url in cleaned:
            if not _valid_address(url):
                raise ValueError(f"must be addresses such as http://gpu1:8000, not {url!r}")
        if len(set(cleaned)) < len(cleaned):
            raise ValueError("the same server stands there twice")
        return cleaned

    @model_validator(mode="after")
    def consistent(self) -> Self:
        if self.name == "server" and not self.urls:
            raise ValueError("engine.name is 'server', but engine.urls names none: start one, see docs/engines.md")
        return self

    @property
    def foreign(self) -> bool:
        """Whether tokens are drawn by another engine than the trainer's own model."""
        return self.name != "transformers"


def _valid_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False
