"""`python -m trainer serve-vllm`: starts vLLM's OpenAI-compatible server, set up to load a learner's weights."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from trainer.config.engine import LOGPROBS_MODE
from trainer.config.run import POCKET
from trainer.engines.vllm.weight_files import EXTENSION

MISSING = (
    "vLLM is not installed in this Python: on a GPU machine install it with pip install '.[vllm]'; for CPUs "
    "`make test-vllm` builds the environment .venv-vllm, whose Python can serve"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model", help="policy.model of the runs that it serves")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; clients can make it load files (default: 127.0.0.1)"
    )
    parser.add_argument("--port", type=int, default=8000, help="default: 8000")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="as policy.dtype")
    parser.add_argument("--cpu", action="store_true", help="run without a GPU and without compilation")
    parser.add_argument("--vllm-args", default="", help='further options of vLLM, as in "--max-model-len 4096"')


def command(options: argparse.Namespace) -> tuple[list[str], dict[str, str]]:
    """Return the command line of the server, and additional environment variables.

    Raises:
        ValueError: vLLM is not installed.
    """
    if importlib.util.find_spec("vllm") is None:
        raise ValueError(MISSING)
    model = options.model
    if model == POCKET:
        from trainer.paths import POCKET_CHECKPOINT

        model = str(POCKET_CHECKPOINT)
    words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    words += [
        "--host",
        options.host,
        "--port",
        str(options.port),
        "--dtype",
        options.dtype,
        "--generation-config",
        "vllm",
    ]
    words += ["--logprobs-mode", LOGPROBS_MODE]
    words += ["--enable-prefix-caching", "--worker-extension-cls", EXTENSION]
    root = str(Path(__file__).resolve().parents[2])
    environment = {
        "VLLM_SERVER_DEV_MODE": "1",  # enables /collective_rpc, which announces weights
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])),
    }
    if options.cpu:
        words += ["--enforce-eager", "--kv-cache-memory-bytes", str(2**30)]
        words += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", "32768"]  # see vllm_engine.py
        environment |= {"TORCHDYNAMO_DISABLE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    return [*words, *shlex.split(options.vllm_args)], environment


def serve(words: Sequence[str], environment: dict[str, str]) -> int:
    """Replace this process by the server."""
    os.execve(words[0], list(words), {**os.environ, **environment})
