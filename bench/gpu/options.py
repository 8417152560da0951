"""Settings of the GPU benchmark, and its workload at each model shape."""

from __future__ import annotations

import argparse
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import torch

from bench.lib.random_models import SHAPES
from bench.lib.recorded_dialogues import GROUP

NEEDED = ("pydantic", "gymnasium", "peft", "psutil")
LARGE = {"qwen2.5-0.5b": "qwen2.5-1.5b"}
"""Shape of the part `large`, by shape; other shapes are measured again."""


@dataclass(frozen=True)
class Workload:
    """Amount of work.

    Attributes:
        trajectories, turns: size of a rollout.
        responses: least and most tokens of a response.
        length, trained: tokens of a dialogue in an update, and how many of them, at its end, are trained on.
        tokens: tokens of the two updates.
        micro: tokens of a micro-batch.
        iterations, groups: size of the whole run.
        rounds: counted rounds.
    """

    trajectories: int
    turns: int
    responses: tuple[int, int]
    length: int
    trained: int
    tokens: tuple[int, int]
    micro: int
    iterations: int
    groups: int
    rounds: int


SMALL = Workload(16, 2, (4, 8), 96, 24, (768, 1536), 768, 1, 2, 1)
FULL = Workload(128, 5, (48, 80), 512, 320, (16_384, 65_536), 16_384, 3, 16, 5)


@dataclass(frozen=True)
class Settings:
    """Settings of the measurement: what, where, and for how long.

    Attributes:
        variants: names of the update's variants to measure; empty: all.
        peak: FLOP/s of the device; None if unknown.
        rows: file for the rows, JSON Lines.
    """

    device: str
    shape: str
    dtype: str
    parts: tuple[str, ...]
    variants: tuple[str, ...]
    rounds: int
    seconds: float
    peak: float | None
    rows: Path

    @property
    def workload(self) -> Workload:
        return SMALL if self.shape in ("tiny", "pocket") else FULL

    @property
    def torch_dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.dtype == "bfloat16" else torch.float32

    def arguments(self) -> list[str]:
        """Return command-line arguments with the same meaning, without the parts."""
        options = ["--device", self.device, "--shape", self.shape, "--dtype", self.dtype, "--rounds", str(self.rounds)]
        options += ["--seconds", str(self.seconds), "--rows", str(self.rows)]
        options += ["--peak-tflops", str(self.peak / 1e12)] if self.peak else []
        return options + (["--variants", ",".join(self.variants)] if self.variants else [])


def missing() -> list[str]:
    """Return packages that this repository's trainer needs and that are not installed."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def listed(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def parser(parts: list[str], description: str | None) -> argparse.ArgumentParser:
    """Return the command line's parser; `parts` are the names to choose from, in their order."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    made.add_argument("--shape", choices=sorted(SHAPES), default="qwen2.5-0.5b")
    made.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    made.add_argument("--parts", type=listed, default=tuple(parts), help=f"of {', '.join(parts)}; all if not given")
    made.add_argument("--variants", type=listed, default=(), help="of the update, by name; all if not given")
    made.add_argument("--rounds", type=int, default=0, help="counted rounds; 0: five, or one at a small shape")
    made.add_argument("--seconds", type=float, default=560.0, help="for all parts; those that do not fit are left out")
    made.add_argument("--peak-tflops", type=float, help="peak of the device, if unknown or different")
    made.add_argument("--rows", type=Path, default=Path("gpu.jsonl"), help="file for the rows, written as they come")
    made.add_argument("--table", type=Path, metavar="PATH", help="also write the table to this file")
    made.add_argument("--part", choices=parts, help=argparse.SUPPRESS)  # one part, in this process
    return made


def check(options: argparse.Namespace, parts: list[str], made: argparse.ArgumentParser) -> None:
    """Exit with advice if the benchmark cannot run as requested."""
    if unknown := sorted(set(options.parts) - set(parts)):
        made.error(f"there is no part {', '.join(unknown)}: choose of {', '.join(parts)}")
    if options.rounds < 0 or options.seconds <= 0:
        made.error("--rounds must be 0 or more, and --seconds above 0")
    if options.device == "cuda" and not torch.cuda.is_available():
        made.error("PyTorch sees no GPU here: see `nvidia-smi` and that PyTorch's build has CUDA, or --device cpu")
    if absent := missing():
        made.error(f"the trainer needs {', '.join(absent)}: pip install {' '.join(absent)}")
    assert FULL.trajectories % GROUP == SMALL.trajectories % GROUP == 0
