"""vLLM engine in this process, with the learner's weights or adapters.

With several GPUs in `cluster.resources` the engine starts a process for each part of the model, which loads its
part of the weights from a file.

vLLM is imported when an engine is created: it is large, and most installations do not need it.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainer.config.engine import LOGPROBS_MODE, MAX_ROWS
from trainer.config.run import RunConfig
from trainer.engines.vllm.weight_files import EXTENSION, write_weights
from trainer.policy import lora_adapters
from trainer.policy.load import ModelError, Policy, get_revision

ADAPTER = "policy"
MISSING = (
    "engine.name is 'vllm', but vLLM is not installed here: on a GPU machine install it with pip install '.[vllm]'; "
    "for CPUs `make test-vllm` builds an environment with it; or choose engine.name=transformers"
)
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # keeps the engine in this process, next to the weights
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # keeps the learner's threads from being bound to cores
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
}
_ENVIRONMENT_OF_PARTS = {
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # a forked process cannot use CUDA after this one did
}


class VllmEngine:
    """vLLM with the policy's weights of the last `push`.

    Args:
        config: the run's settings.
        policy: the learner's model. With adapters the engine loads the base model and gets the adapters as a LoRA
            request.

    Raises:
        ModelError: vLLM is not installed, or does not support this model or these settings.
    """

    def __init__(self, config: RunConfig, policy: Policy) -> None:
        self.parts = config.engine_parts
        for name, value in (_ENVIRONMENT | (_ENVIRONMENT_OF_PARTS if self.parts > 1 else {})).items():
            os.environ.setdefault(name, value)
        try:
            import vllm
        except ImportError as error:
            raise ModelError(f"{MISSING} ({error})") from error
        self.vllm, self.config, self.policy = vllm, config, policy
        self.adapted = config.lora.rank > 0
        self.on_gpu = policy.model.device.type == "cuda"
        self.folder = tempfile.TemporaryDirectory(prefix="echoscope-vllm-")
        self.pushes, self.closed = 0, False
        try:
            with _signals_restored(threads=not self.on_gpu):
                self.core = vllm.LLMEngine.from_engine_args(vllm.EngineArgs(**self._arguments()))
        except (ValueError, RuntimeError, NotImplementedError) as error:
            self.folder.cleanup()
            raise ModelError(f"engine.name=vllm: the engine does not start: {error}") from error

    def _arguments(self) -> dict[str, Any]:
        engine, model = self.config.engine, self.policy.model
        arguments: dict[str, Any] = {
            "model": self._source(),
            "load_format": "auto" if self.adapted else "dummy",
            "dtype": str(model.dtype).removeprefix("torch."),
            "skip_tokenizer_init": True,
            "generation_config": "vllm",
            "max_model_len": self.policy.context,
            "max_num_seqs": MAX_ROWS,
            "enable_prefix_caching": True,
            "logprobs_mode": LOGPROBS_MODE,
            "enforce_eager": engine.eager or not self.on_gpu,
            "disable_log_stats": True,
            "seed": 0,
        }
        if self.on_gpu:
            arguments |= {
                "gpu_memory_utilization": engine.gpu_memory_utilization,
                "enable_sleep_mode": True,
            }
        else:
            arguments["kv_cache_memory_bytes"] = engine.cpu_cache_bytes
            # vLLM 0.32 cannot prefill a seeded row in chunks on CPUs ("CPU Generator does not use offset").
            arguments |= {"enable_chunked_prefill": False, "max_num_batched_tokens": max(8192, self.policy.context)}
        if self.parts > 1:
            arguments |= {
                "tensor_parallel_size": self.parts,
                "distributed_executor_backend": "mp",  # stays here: within a Ray actor vLLM would request more actors
                "worker_extension_cls": EXTENSION,
            }
        if self.adapted and not Path(arguments["model"]).is_dir():
            arguments |= get_revision(self.config.policy)
        if self.adapted:
            arguments |= {"enable_lora": True, "max_loras": 1, "max_lora_rank": lora_rank(self.config.lora.rank)}
        return arguments

    def _source(self) -> str:
        """Path or name to load: the base model if there are adapters, otherwise only the model's configuration."""
        if self.adapted:
            return str(self.policy.model.name_or_path)
        model_config = self.policy.model.config
        model_config.architectures = [type(self.policy.model).__name__]
        model_config.save_pretrained(self.folder.name)
        return self.folder.name

    @torch.no_grad()
    def push(self) -> None:
        """Load the learner's current weights or adapters into the engine, and reset its prefix cache."""
        self.pushes += 1
        if self.adapted:
            self._push_adapter()
        elif self.parts > 1:
            self._push_files()
        else:
            weights = [(name, tensor.detach()) for name, tensor in self.policy.model.state_dict().items()]
            self.core.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights)})
        self.core.reset_prefix_cache()

    def _push_files(self) -> None:
        """Let all parts load the weights from a file, which is deleted afterwards."""
        folder = Path(self.folder.name) / f"weights-{self.pushes}"
        write_weights(self.policy.model.state_dict(), folder)
        self.core.collective_rpc("take_weights", args=(str(folder), str(self.pushes)))
        shutil.rmtree(folder)

    def _push_adapter(self) -> None:
        folder = Path(self.folder.name) / f"adapter-{self.pushes}"
        lora_adapters.save_adapter(self.policy.model, self.config.lora, str(self.policy.model.name_or_path), folder)
        if self.pushes > 1:
            self.core.remove_lora(self.pushes - 1)
        self.core.add_lora(self.adapter)

    @property
    def adapter(self) -> Any:
        """LoRA request of the last pushed adapters; None without adapters."""
        if not self.adapted:
            return None
        from vllm.lora.request import LoRARequest

        folder = Path(self.folder.name) / f"adapter-{self.pushes}"
        return LoRARequest(f"{ADAPTER}-{self.pushes}", self.pushes, str(folder))

    @property
    def sleeps(self) -> bool:
        """True if the engine's memory can be released to the learner: only on a GPU."""
        return self.on_gpu

    def step(self) -> list[Any]:
        """Run one step of all active requests. On a CPU nothing is compiled, which would take minutes."""
        if self.on_gpu:
            return list(self.core.step())
        with torch.compiler.set_stance("force_eager"):
            return list(self.core.step())

    def abort(self, names: list[str]) -> None:
        """Abort active requests."""
        if not self.closed:
            self.core.abort_request(names)

    def close(self) -> None:
        """Shut the engine down and remove its files."""
        self.closed = True
        self.core.engine_core.shutdown()
        del self.core
        self.folder.cleanup()


def lora_rank(rank: int) -> int:
    """Return the smallest rank supported by vLLM's kernels that is at least this one. Raises ModelError above 512."""
    for supported in (8, 16, 32, 64, 128, 256, 320, 512):
        if rank <= supported:
            return supported
    raise ModelError(f"lora.rank: vLLM takes adapters of rank 512 at most, not {rank}: choose engine.name=transformers")


@contextmanager
def _signals_restored(*, threads: bool) -> Iterator[None]:
    """Restore the process's random generators, which a starting engine seeds, and torch's thread setter (CPU)."""
    python, numbers = random.getstate(), np.random.get_state()
    number, setter = torch.get_num_threads(), torch.set_num_threads
    with torch.random.fork_rng():
        yield
    random.setstate(python)
    np.random.set_state(numbers)
    if threads:
        setattr(torch, "set_num_threads", setter)  # noqa: B010 vLLM replaces it by a no-op
        setter(number)
