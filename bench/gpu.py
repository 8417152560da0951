"""How fast is it on this GPU? Rollout and update at the shape of Qwen2.5-0.5B, random weights, nothing downloaded.

    pip install torch transformers pydantic gymnasium peft     # all it needs beside this repository
    python -m bench.gpu --json gpu.json                        # bf16, 16k tokens a step
    python -m bench.gpu --device cpu --quick                   # a tiny shape, to see that it works

Rollout: trajectories of several turns, our sampler (keys and values kept from turn to turn, a group's prompt read once)
and transformers' `generate`, which reads the whole dialogue again at each turn; both draw every response to its full
length from the same model, in turn. Update: our learner and the plain PyTorch step of bench/lib/plain_worker.py, each
without and with gradient checkpointing, each in a process of its own; bf16 means bf16 computation over fp32 weights.

MFU: operations of a step (`step_flops` in bench/lib/random_models.py) over the device's peak in the time of a step:
6 for each weight and token, logits for trained tokens alone, causal attention; nothing that is computed twice. The peak
is the maker's figure for dense bf16 with fp32 accumulation.
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
from bench.lib.comparison import MEBIBYTE, OURS, Ask, Duel, Entry, times
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
    """FLOP/s of a device by its name, None when it is not in the table."""
    words = name.split()
    for known, tera in PEAKS.items():
        if any(words[at : at + len(known.split())] == known.split() for at in range(len(words))) or (
            " " not in known and any(word.split("-")[0] == known for word in words)
        ):
            return tera * 1e12
    return None


def missing() -> list[str]:
    """Packages that this repository's trainer needs and that are not installed."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


class Rollout:
    """The same dialogues played by our sampler and by `generate`; observations are given, responses drawn in full."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.dtype = getattr(torch, given.dtype)
        self.model = build(given.shape, 0, given.device, self.dtype)
        vocabulary = SHAPES[given.shape]["vocab_size"]
        lines = recorded_dialogues.even(given.trajectories, given.read, given.seen, vocabulary)
        self.prompts = [line.prompt for line in lines]
        self.seen = [line.rest for line in lines]
        self.tokens = given.trajectories * given.turns * given.written
        self.seed = 0

    def ours(self) -> None:
        from trainer.engines.sampler import SamplingParams
        from trainer.engines.transformers.transformers_sampler import TransformersSampler

        self.seed += 1
        seeds = [self.seed * len(self.prompts) + row for row in range(len(self.prompts))]
        session = TransformersSampler(self.model, -1, 0).session(seeds, SamplingParams(max_tokens=self.given.written))
        for turn in range(self.given.turns):
            asked = self.seen if turn else self.prompts
            drawn = sum(len(sampled.ids) for _, sampled in session.generate(dict(enumerate(asked))))
            assert drawn == len(asked) * self.given.written, f"our sampler drew {drawn} tokens"

    @torch.inference_mode()
    def generate(self) -> None:
        device, written = self.given.device, self.given.written
        ids = torch.tensor(self.prompts, device=device)
        seen = torch.tensor(self.seen, device=device)
        for turn in range(self.given.turns):
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
        """Lines of the table: each player in turn, for several rounds after one that does not count."""
        players: dict[str, Callable[[], None]] = {OURS: self.ours, GENERATE: self.generate}
        peak = Peak(self.given.device)
        took: dict[str, list[dict[str, float]]] = {name: [] for name in players}
        for number in range(rounds + 1):
            for name, play in players.items():
                clock = Clock(peak)
                play()
                if number:
                    took[name].append(clock.stop())
                print(f"rollout, {name}, round {number + 1} of {rounds + 1}", file=sys.stderr)
        found = []
        for name, clocks in took.items():
            seconds = statistics.median(clock["seconds"] for clock in clocks)
            ratio = statistics.median(
                theirs["seconds"] / ours["seconds"] for ours, theirs in zip(took[OURS], clocks, strict=True)
            )
            memory = statistics.median(clock["peak"] for clock in clocks)
            found.append({"name": name, "seconds": seconds, "tokens": self.tokens, "ratio": ratio, "peak": memory})
        return found


def update(given: argparse.Namespace, folder: Path) -> Duel:
    """One optimiser step on `step_tokens` tokens, by everybody in turn."""
    length = given.step_tokens // given.rows
    dialogues = recorded_dialogues.even(
        given.rows, length - given.trained, given.trained, SHAPES[given.shape]["vocab_size"]
    )
    path = folder / "work.json"
    recorded_dialogues.save(dialogues, path)
    base = {
        "shape": given.shape,
        "seed": 0,
        "device": given.device,
        "dtype": given.dtype,
        "rows": given.rows,
        "threads": torch.get_num_threads(),
    }
    here = Path(sys.executable)
    modules = {OURS: "bench.lib.our_worker", PLAIN: "bench.lib.plain_worker"}
    entries = {
        name + (", checkpointing" if again else ""): Entry(here, module, base | {"checkpointing": again})
        for again in ((False,) if given.quick else (False, True))
        for name, module in modules.items()
    }
    ask = Ask("step", sum(map(len, dialogues)), {"work": str(path)})
    duel = Duel(entries, {"update": ask}, fresh=given.device == "cuda", warm=2)
    duel.play(
        given.rounds,
        lambda ours: ours.ask("record", works=[str(path)]) and None,
        lambda text: print(f"update, {text}", file=sys.stderr),
    )
    return duel


def tables(given: argparse.Namespace, rollout: list[dict[str, Any]], learner: list[dict[str, Any]]) -> str:
    """For people."""
    lines = ["| rollout | tokens/s | seconds | ours is faster by | most memory |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    lines += [
        f"| {line['name']} | {line['tokens'] / line['seconds']:,.0f} | {line['seconds']:.2f} | {times(line['ratio'])} "
        f"| {line['peak'] / MEBIBYTE:,.0f} MiB |"
        for line in rollout
    ]
    lines += ["", "| update | tokens/s | a step | MFU | ours is faster by | most memory |"]
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
    parser.add_argument("--trained", type=int, default=320, help="tokens of each that are trained on")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--peak-tflops", type=float, help="the device's peak, when it is not known or not that")
    parser.add_argument("--quick", action="store_true", help="a tiny shape, little work, no checkpointing")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    given = parser.parse_args()
    if given.quick:
        given.shape, given.trajectories, given.turns, given.read, given.seen, given.written = "tiny", 16, 2, 32, 8, 8
        given.step_tokens, given.rows, given.trained = 512, 8, 24
    if given.trajectories % recorded_dialogues.GROUP or given.rows % recorded_dialogues.GROUP:
        parser.error(
            f"--trajectories and --rows must be multiples of {recorded_dialogues.GROUP}: that many share a prompt"
        )
    if given.step_tokens // given.rows <= given.trained:
        parser.error("--trained must leave something to read: lower it, or raise --step-tokens")
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU here: see `nvidia-smi` and that PyTorch's build has CUDA, or --device cpu")
    if absent := missing():
        parser.error(f"the trainer needs {', '.join(absent)}: pip install {' '.join(absent)}")
    return given


def main() -> int:
    given = arguments()
    device = torch.cuda.get_device_name() if given.device == "cuda" else "CPU"
    peak = given.peak_tflops * 1e12 if given.peak_tflops else peak_of(device)
    words = machine.describe()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "cuda": torch.version.cuda}
    played = Rollout(given)
    rollout = played.measure(given.rounds)
    del played
    if given.device == "cuda":
        torch.cuda.empty_cache()
    length = given.step_tokens // given.rows
    flops = step_flops(outline(given.shape), [length] * given.rows, given.rows * given.trained)
    with tempfile.TemporaryDirectory(prefix="echoscope-gpu-") as folder:
        duel = update(given, Path(folder))
    learner = duel.figures()
    for line in learner:
        line["mfu"] = flops / line["seconds"] / peak if peak else None
    print(f"{device}; {words}")
    print(", ".join(f"{name} {number}" for name, number in versions.items() if number))
    print(
        f"{given.shape}, {given.dtype}. Rollout: {given.trajectories} trajectories × {given.turns} turns of "
        f"{given.written} tokens, first prompt {given.read}, {given.seen} read before each further turn. "
        f"Update: {given.rows} × {length} tokens, {given.trained} of each trained on, {flops / 1e12:.3g} TFLOP. "
        f"Medians of {given.rounds} rounds."
    )
    print(f"Peak: {peak / 1e12:,.4g} TFLOP/s.\n" if peak else "Peak unknown, so no MFU: give --peak-tflops.\n")
    print(tables(given, rollout, learner))
    for name, why in duel.missing.items():
        print(f"| {name} | {why} | | | | |")
    if given.json:
        figures: dict[str, Any] = {"device": device, "machine": words, "versions": versions, "peak_flops": peak}
        figures |= {"settings": {name: value for name, value in vars(given).items() if name != "json"}}
        figures |= {"step_flops": flops, "rollout": rollout, "update": learner, "missing": duel.missing}
        given.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
