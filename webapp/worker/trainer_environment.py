"""Environment variables of a trainer process: an allow-list, so that it receives no secret of the site.

A run's process executes code of models and environments that users choose, and the worker's own variables contain the
addresses and passwords of database, Redis, storage and mail.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from envs.sandbox.host_environment import BASIC_NAMES, BASIC_PREFIXES, select
from trainer.config.engine import EAGER_VARIABLE, WEIGHTS_VARIABLE
from trainer.config.hosted import HostedConfig
from trainer.config.removed import without_removed
from trainer.config.resources import RAY_ADDRESS_VARIABLE
from trainer.config.update_variants import VARIANTS_VARIABLE
from trainer.timeouts import TIMEOUT_PREFIX
from webapp.worker.ray_cluster import RAY_PREFIX

VARIABLE = "ECHOSCOPE_TRAINER_ENV"
"""Names of further variables that trainers receive, comma-separated, set by the operator."""
NAMES = frozenset(
    {
        "ECHOSCOPE_CACHE",
        "ECHOSCOPE_COMMIT",
        "ECHOSCOPE_MODELS",
        EAGER_VARIABLE,
        VARIANTS_VARIABLE,
        WEIGHTS_VARIABLE,
        "CC",
        "CXX",  # Triton compiles kernels
        "XDG_CONFIG_HOME",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "HUGGINGFACE_HUB_CACHE",
        *(name for proxy in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (proxy, proxy.upper())),
    }
)
PREFIXES = (
    TIMEOUT_PREFIX,
    "HF_",
    "TRANSFORMERS_",
    "TOKENIZERS_",
    "SAFETENSORS_",
    "TORCH",
    "PYTORCH_",
    "TRITON_",
    "VLLM_",
    "CUDA",
    "CUBLAS_",
    "CUDNN_",
    "NVIDIA",
    "NCCL_",
    "GLOO_",
    "ROCR_",
    "HIP_",
    "KMP_",
    "ATEN_",
    "GOMP_",
    "NUMEXPR_",
    "DNNL_",
    "ONEDNN_",
)
TRACKER_PREFIXES = {
    "wandb": "WANDB_",
    "mlflow": "MLFLOW_",
    "trackio": "TRACKIO_",
    "tensorboard": "TENSORBOARD_",
    "opentelemetry": "OTEL_",
}
PR_SET_DUMPABLE = 4
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def trainer_environment(config: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the worker's variables that the trainer of this configuration receives.

    These are basic variables (PATH, HOME, locale, PYTHON…), the variables of numeric libraries, model hubs and the
    run's trackers, the key of its hosted model, and variables that the operator named in ECHOSCOPE_TRAINER_ENV. A run
    with Ray actors also receives the worker's cluster address, and Ray's variables with the cluster's token.

    Raises:
        ValueError: ECHOSCOPE_TRAINER_ENV is not a list of names.
    """
    trackers = config.get("trackers") or ()
    prefixes = [prefix for tracker, prefix in TRACKER_PREFIXES.items() if tracker in trackers]
    names = BASIC_NAMES | NAMES | named_by_operator(environ)
    if uses_ray(config):
        names, prefixes = names | {RAY_ADDRESS_VARIABLE}, [*prefixes, RAY_PREFIX]
    return select(environ, names.union(_key_variable(config)), (*BASIC_PREFIXES, *PREFIXES, *prefixes))


def thread_limit(slots: int) -> dict[str, str]:
    """Return OMP_NUM_THREADS for a trainer unless the worker sets it: its share of the cores. Empty with one slot."""
    return {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // slots))} if slots > 1 else {}


def uses_ray(config: Mapping[str, Any]) -> bool:
    """Return True if a run of that configuration has Ray actors."""
    cluster = config.get("cluster") or {}
    return bool(cluster.get("rollout_actors") or cluster.get("learners"))


def named_by_operator(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the names in ECHOSCOPE_TRAINER_ENV. Raises ValueError for anything that is not a name."""
    names = [name.strip() for name in environ.get(VARIABLE, "").split(",") if name.strip()]
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{VARIABLE} must list names of variables, separated by commas; {name!r} is none.")
    return frozenset(names)


def _key_variable(config: Mapping[str, Any]) -> list[str]:
    """Return the variable with the key of the run's hosted model, as confirmed by the operator's list of endpoints."""
    try:
        hosted = HostedConfig.model_validate(without_removed(config).get("hosted") or {})
    except ValidationError:  # the trainer rejects it with a message
        return []
    return [hosted.api_key_env] if hosted.url and hosted.api_key_env else []


def hide_own_environment() -> None:
    """Keep processes of the same account from reading this process's variables and memory in /proc (Linux, no root)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
