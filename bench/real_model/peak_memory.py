"""Peak memory of whole runs on a CPU, next to the estimate: `python -m bench.real_model.peak_memory FOLDER`.

Each run is a forked process. Its peak is the largest amount of anonymous memory, read every 10 ms, and the pages of
libraries. Pages of a checkpoint that is mapped while it is loaded do not count: the system drops them when memory is
short.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import torch

from trainer.cli.main import main as trainer
from trainer.config.files import with_overrides
from trainer.config.run import RunConfig
from trainer.loops import evaluate, sft, train  # noqa: F401 imported once, before the first fork
from trainer.memory.available import resident_memory
from trainer.memory.estimate import GB, estimate_memory
from trainer.policy.shapes import find_shape

_COMMON = (
    "policy.device=cpu",
    "policy.threads=1",
    "memory.preflight=none",
    "evaluation.suites=[]",
    "evaluation.every=0",
    "evaluation.prompts=0",
    "rollout.groups=4",
    "rollout.group_size=6",
    "checkpoint.every=1000",
    "iterations=2",
    "optimizer.mini_batch_trajectories=24",
)
_BANDIT = ("environment.name=Bandit", "rollout.max_turns=1", "rollout.max_actions=1", "rollout.max_response_tokens=32")
_LAKE = ("environment.name=FrozenLake", "rollout.max_turns=3", "rollout.max_response_tokens=32")
_ALL = ("lora.rank=0",)
_LORA = ("lora.rank=64",)
_EVERY_GROUP = "algorithm.group_filter=none"
_PPO = ("algorithm.estimator=gae", _EVERY_GROUP, "algorithm.kl_coef=0.001")
_REINFORCE = ("algorithm.estimator=reinforce_plus_plus", _EVERY_GROUP, "algorithm.kl_coef=0")
_SFT = ("sft.demonstrations=32", "sft.batch=8", "iterations=2")
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "evaluate": ("evaluate", (*_LAKE, "evaluation.prompts=12")),
    "sft": ("sft", (*_BANDIT, *_ALL, *_SFT)),
    "sft-lora": ("sft", (*_BANDIT, *_LORA, *_SFT)),
    "train": ("train", (*_BANDIT, *_ALL, *_REINFORCE)),
    "train-lake": ("train", (*_LAKE, *_ALL, *_REINFORCE)),
    "train-lora": ("train", (*_BANDIT, *_LORA, *_REINFORCE)),
    "ppo": (
        "train",
        (*_BANDIT, *_ALL, *_PPO),
    ),
}
"""Name → kind of run and its settings."""


@dataclass(frozen=True)
class MeasuredRun:
    """Peak of a run and its estimate, in bytes. `base` is the resident set of the process before the run."""

    peak: int
    estimate: int
    base: int

    @property
    def ratio(self) -> float:
        """Measured over estimated peak."""
        return self.peak / self.estimate


def measure(folder: Path, name: str, changes: Sequence[str] = ()) -> MeasuredRun:
    """Run one of `KINDS` with the checkpoint in a folder, and estimate the same settings.

    Raises:
        RuntimeError: the run failed; its output says why.
    """
    kind, settings = KINDS[name]
    config = RunConfig.model_validate({"kind": kind, "policy": {"model": str(folder)}})
    config = with_overrides(config, (*_COMMON, *settings, *changes))
    shape = find_shape(str(folder))
    if shape is None:
        raise RuntimeError(f"{folder} has no config.json that can be read")
    with tempfile.TemporaryDirectory() as out:
        file = Path(out, "config.yaml")
        file.write_text(config.model_dump_json(), encoding="utf-8")
        policy = ["--policy", str(folder)] if kind == "evaluate" else []
        rank = ["--set", f"lora.rank={config.lora.rank}"]
        peak = _peak([kind, *policy, "--config", str(file), *rank, "--out", str(Path(out, "run"))])
    return MeasuredRun(peak, estimate_memory(config, shape, gpu=False).peak, resident_memory())


def _peak(arguments: Sequence[str]) -> int:
    """Return the peak of a trainer's command in a forked process, in bytes."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            anonymous: list[int] = []
            Thread(target=_sample_anonymous, args=(anonymous,), daemon=True).start()
            code = trainer(list(arguments))
            os.write(writing, str(max(anonymous) + _read_status("RssFile")).encode())
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    if status or not text:
        raise RuntimeError(f"python -m trainer {' '.join(arguments)} failed")
    return int(text)


def _sample_anonymous(sizes: list[int]) -> None:
    """Append the size of the anonymous memory of this process every 10 ms, in bytes."""
    while True:
        sizes.append(_read_status("RssAnon"))
        time.sleep(0.01)


def _read_status(field: str) -> int:
    """Return a size in /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def main() -> None:
    """Print a line for each kind of run and precision."""
    parser = argparse.ArgumentParser(prog="bench.real_model.peak_memory", description=__doc__)
    parser.add_argument("folder", type=Path, help="a checkpoint with its tokenizer")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--dtypes", default="bfloat16,float32")
    parser.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="change a setting of all runs"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)  # threads do not survive a fork
    for name in options.kinds.split(","):
        for dtype in options.dtypes.split(","):
            run = measure(options.folder, name, (f"policy.dtype={dtype}", *options.set))
            print(
                f"{name:10s} {dtype:9s} measured {run.peak / GB:5.2f} GB, estimated {run.estimate / GB:5.2f} GB, "
                f"ratio {run.ratio:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
