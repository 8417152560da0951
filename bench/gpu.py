"""Speed of rollout and update on a GPU, at the shape of Qwen2.5-0.5B with random weights; nothing is downloaded.

    pip install torch transformers pydantic gymnasium peft     # all it needs beside this repository
    python -m bench.gpu --json gpu.json                        # bf16, 16k tokens a step
    python -m bench.gpu --device cpu --quick                   # a tiny shape, to check that it works

Rollout: trajectories of several turns with our sampler (KV cache kept across turns, a group's prompt read once) and
with `generate` of transformers, which reads the whole dialogue in every turn; both sample every response to its full
length from the same model, in turn. Update: our learner and the plain PyTorch step of
bench/lib/workers/plain_worker.py, each with and without gradient checkpointing, each in its own process; bf16 means
bf16 computation over fp32 weights.

MFU: floating-point operations of a step (`step_flops` in bench/lib/random_models.py) over the device's peak in the time
of a step: 6 per weight and token, logits of trained tokens only, causal attention, no recomputation. The peak is the
vendor's figure for dense bf16 with fp32 accumulation.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from bench.lib import recorded_dialogues
from bench.lib.comparison import MEBIBYTE, OURS, Comparison, ContenderSpec, Task, times
from bench.lib.random_models import SHAPES, build, outline, step_flops
from bench.lib.resource_meter import Clock, Peak
from trainer.studies import machine

NEEDED = ("pydantic", "gymnasium", "peft")
PLAIN, GENERATE = "plain PyTorch", "transformers generate"
ROUNDS = 5
PEAKS = {
    "B200": 2250,
    "H200": 989,
    "GH200": 989,
    "H100 PCIe": 756,
    "H100 NVL": 835,
    "H100": 989,
    "A100": 312,
    "L40S": 362,
    "L4": 121,
    "A10": 125,
    "A6000": 155,
    "RTX 6000 Ada": 364,
    "RTX 4090": 165,
    "RTX 3090": 71,
}
"""TFLOP/s, dense bf16 with fp32 accumulation, from the makers' data sheets; the first name that fits counts."""


def peak_of(name: str) -> float | None:
    """Peak FLOP/s of a device by name; None if it is not in the table."""
    words = name.split()
    for device, tera in PEAKS.items():
        if any(words[at : at + len(device.split())] == device.split() for at in range(len(words))) or (
            " " not in device and any(word.split("-")[0] == device for word in words)
        ):
            return tera * 1e12
    return None


def missing() -> list[str]:
    """Packages that this repository's trainer needs and that are not installed."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


class Rollout:
    """The same dialogues played by our sampler and by `generate`; responses are sampled to full length."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.dtype = getattr(torch, options.dtype)
        self.model = build(options.shape, 0, options.device, self.dtype)
        vocabulary = SHAPES[options.shape]["vocab_size"]
        lines = recorded_dialogues.even(options.trajectories, options.read, options.seen, vocabulary)
        self.prompts = [line.prompt for line in lines]
        self.seen = [line.rest for line in lines]
        self.tokens = options.trajectories * options.turns * options.written
        self.seed = 0

    def ours(self) -> None:
        from trainer.engines.sampler import SamplingParams
        from trainer.engines.transformers.transformers_sampler import TransformersSampler

        self.seed += 1
        seeds = [self.seed * len(self.prompts) + row for row in range(len(self.prompts))]
        session = TransformersSampler(self.model, -1, 0).session(seeds, SamplingParams(max_tokens=self.options.written))
        for turn in range(self.options.turns):
            prompts = self.seen if turn else self.prompts
            drawn = sum(len(sampled.ids) for _, sampled in session.generate(dict(enumerate(prompts))))
            assert drawn == len(prompts) * self.options.written, f"our sampler drew {drawn} tokens"

    @torch.inference_mode()
    def generate(self) -> None:
        device, written = self.options.device, self.options.written
        ids = torch.tensor(self.prompts, device=device)
        seen = torch.tensor(self.seen, device=device)
        for turn in range(self.options.turns):
            ids = torch.cat([ids, seen], dim=1) if turn else ids
            before = ids.shape[1]
            ids = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                temperature=1.0,
                top_k=0,
                max_new_tokens=written,
                min_new_tokens=written,
            )
            assert ids.shape[1] == before + written, f"generate drew {ids.shape[1] - before} tokens a row"

    def measure(self, rounds: int) -> list[dict[str, Any]]:
        """Table rows: each sampler in turn, for several rounds after an uncounted one."""
        players: dict[str, Callable[[], None]] = {OURS: self.ours, GENERATE: self.generate}
        peak = Peak(self.options.device)
        took: dict[str, list[dict[str, float]]] = {name: [] for name in players}
        for number in range(rounds + 1):
            for name, play in players.items():
                clock = Clock(peak)
                play()
                if number:
                    took[name].append(clock.stop())
                print(f"rollout, {name}, round {number + 1} of {rounds + 1}", file=sys.stderr)
        rows = []
        for name, clocks in took.items():
            seconds = statistics.median(clock["seconds"] for clock in clocks)
            ratio = statistics.median(
                theirs["seconds"] / ours["seconds"] for ours, theirs in zip(took[OURS], clocks, strict=True)
            )
            memory = statistics.median(clock["peak"] for clock in clocks)
            rows.append({"name": name, "seconds": seconds, "tokens": self.tokens, "ratio": ratio, "peak": memory})
        return rows


def update(options: argparse.Namespace, folder: Path) -> Comparison:
    """One optimiser step on `step_tokens` tokens, by every contender in turn."""
    length = options.step_tokens // options.rows
    dialogues = recorded_dialogues.even(
        options.rows, length - options.trained, options.trained, SHAPES[options.shape]["vocab_size"]
    )
    path = folder / "work.json"
    recorded_dialogues.save(dialogues, path)
    base = {
        "shape": options.shape,
        "seed": 0,
        "device": options.device,
        "dtype": options.dtype,
        "rows": options.rows,
        "threads": torch.get_num_threads(),
    }
    here = Path(sys.executable)
    modules = {OURS: "bench.lib.workers.our_worker", PLAIN: "bench.lib.workers.plain_worker"}
    entries = {
        name + (", checkpointing" if again else ""): ContenderSpec(here, module, base | {"checkpointing": again})
        for again in ((False,) if options.quick else (False, True))
        for name, module in modules.items()
    }
    ask = Task("step", sum(map(len, dialogues)), {"work": str(path)})
    comparison = Comparison(entries, {"update": ask}, fresh=options.device == "cuda", warm=2)
    comparison.play(
        options.rounds,
        lambda ours: ours.ask("record", works=[str(path)]) and None,
        lambda text: print(f"update, {text}", file=sys.stderr),
    )
    return comparison


def tables(options: argparse.Namespace, rollout: list[dict[str, Any]], learner: list[dict[str, Any]]) -> str:
    """Results as Markdown."""
    lines = ["| rollout | tokens/s | seconds | ours is faster by | peak memory |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    lines += [
        f"| {line['name']} | {line['tokens'] / line['seconds']:,.0f} | {line['seconds']:.2f} | {times(line['ratio'])} "
        f"| {line['peak'] / MEBIBYTE:,.0f} MiB |"
        for line in rollout
    ]
    lines += ["", "| update | tokens/s | a step | MFU | ours is faster by | peak memory |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for line in learner:
        mfu = "–" if line["mfu"] is None else f"{line['mfu']:.1%}"
        lines.append(
            f"| {line['name']} | {line['tokens'] / line['seconds']:,.0f} | {line['seconds']:.3f} s | {mfu} "
            f"| {times(line['ratio'])} | {line['peak'] / MEBIBYTE:,.0f} MiB |"
        )
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="qwen2.5-0.5b")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--trajectories", type=int, default=128, help="played at once, a multiple of 8")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--read", type=int, default=200, help="tokens of the first prompt")
    parser.add_argument("--seen", type=int, default=60, help="tokens read before each further turn")
    parser.add_argument("--written", type=int, default=64, help="tokens of each response")
    parser.add_argument("--step-tokens", type=int, default=16_384, help="tokens of an update")
    parser.add_argument("--rows", type=int, default=32, help="dialogues of an update, a multiple of 8")
    parser.add_argument("--trained", type=int, default=320, help="trained tokens per dialogue")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--peak-tflops", type=float, help="peak of the device, if unknown or different")
    parser.add_argument("--quick", action="store_true", help="a tiny shape, little work, no checkpointing")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the results to this file")
    options = parser.parse_args()
    if options.quick:
        options.shape, options.trajectories, options.turns, options.read, options.seen, options.written = (
            "tiny",
            16,
            2,
            32,
            8,
            8,
        )
        options.step_tokens, options.rows, options.trained = 512, 8, 24
    if options.trajectories % recorded_dialogues.GROUP or options.rows % recorded_dialogues.GROUP:
        parser.error(
            f"--trajectories and --rows must be multiples of {recorded_dialogues.GROUP}: that many share a prompt"
        )
    if options.step_tokens // options.rows <= options.trained:
        parser.error("--trained must leave something to read: lower it, or raise --step-tokens")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU here: see `nvidia-smi` and that PyTorch's build has CUDA, or --device cpu")
    if absent := missing():
        parser.error(f"the trainer needs {', '.join(absent)}: pip install {' '.join(absent)}")
    return options


def main() -> int:
    options = arguments()
    device = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    peak = options.peak_tflops * 1e12 if options.peak_tflops else peak_of(device)
    words = machine.describe()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "cuda": torch.version.cuda}
    played = Rollout(options)
    rollout = played.measure(options.rounds)
    del played
    if options.device == "cuda":
        torch.cuda.empty_cache()
    length = options.step_tokens // options.rows
    flops = step_flops(outline(options.shape), [length] * options.rows, options.rows * options.trained)
    with tempfile.TemporaryDirectory(prefix="echoscope-gpu-") as folder:
        comparison = update(options, Path(folder))
    learner = comparison.figures()
    for line in learner:
        line["mfu"] = flops / line["seconds"] / peak if peak else None
    print(f"{device}; {words}")
    print(", ".join(f"{name} {number}" for name, number in versions.items() if number))
    print(
        f"{options.shape}, {options.dtype}. Rollout: {options.trajectories} trajectories × {options.turns} turns of "
        f"{options.written} tokens, first prompt {options.read}, {options.seen} read before each further turn. "
        f"Update: {options.rows} × {length} tokens, {options.trained} of each trained on, {flops / 1e12:.3g} TFLOP. "
        f"Medians of {options.rounds} rounds."
    )
    print(f"Peak: {peak / 1e12:,.4g} TFLOP/s.\n" if peak else "Peak unknown, so no MFU: give --peak-tflops.\n")
    print(tables(options, rollout, learner))
    for name, why in comparison.missing.items():
        print(f"| {name} | {why} | | | | |")
    if options.json:
        figures: dict[str, Any] = {"device": device, "machine": words, "versions": versions, "peak_flops": peak}
        figures |= {"settings": {name: value for name, value in vars(options).items() if name != "json"}}
        figures |= {"step_flops": flops, "rollout": rollout, "update": learner, "missing": comparison.missing}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
