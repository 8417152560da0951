"""Speed of multi-turn rollouts with our sampler, with `generate` and with vLLM.

    python -m bench.rollout                        # 128 trajectories of five turns with the pocket policy
    python -m bench.rollout --peers DIR            # vLLM installed into DIR if the project has none
    python -m bench.rollout --shape qwen2.5-0.5b --device cuda --dtype bfloat16    # random weights, no download
    python -m bench.rollout --quick                # 16 trajectories of two turns; within a minute if vLLM is installed

All play the same rollouts with equally many sampled tokens, in turn, for several rounds after an uncounted one.
`generate` reads each turn's dialogues anew, left-padded; vLLM has prefix caching on and receives each next turn as soon
as a response is complete. Ours and vLLM also return log-probabilities, ours the entropy. Figures are medians of the
rounds, ratios medians of the ratios within a round; the second ratio compares CPU time summed over processes and
threads, which other programs on the machine disturb less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as in `python -m trainer`; must precede torch's import

import torch
import transformers

from bench.lib.peers.env_peers import NotInstallable
from bench.lib.peers.vllm_peer import NAME, Vllm
from bench.lib.random_models import SHAPES, build
from bench.lib.rollout_workload import Generate, OurSampler, Work, make
from trainer.config.run import PolicyConfig
from trainer.paths import POCKET_CHECKPOINT
from trainer.policy.load import load
from trainer.studies import machine

OURS, GENERATE = "Echoscope", "transformers generate, rereading each turn"
VLLM = f"{NAME}, prefix caching"
AIMS = {GENERATE: 3.0, VLLM: 1.5}
ROUNDS, GROUP = 5, 8
LENGTHS = {"42 tokens each": (42, 42), "24 to 60 tokens": (24, 60)}
"""Responses of the pocket policy have 38 to 54 tokens, 42 on average."""


@dataclass(frozen=True)
class RolloutContender:
    """A sampler under test; `processor` returns its CPU seconds so far."""

    play: Callable[[Work], int]
    processor: Callable[[], float]


@dataclass
class RolloutComparison:
    """One kind of rollout. Wall-clock and CPU seconds of each contender, one pair per round."""

    name: str
    work: Work
    contenders: dict[str, RolloutContender]
    clock: dict[str, list[float]] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)

    def play(self) -> None:
        """Play one round. Raises RuntimeError if a contender samples another number of tokens."""
        for name, contender in self.contenders.items():
            spent, started = contender.processor(), time.perf_counter()
            tokens = contender.play(self.work)
            self.clock.setdefault(name, []).append(time.perf_counter() - started)
            self.processor.setdefault(name, []).append(contender.processor() - spent)
            if tokens != self.work.tokens:
                raise RuntimeError(f"{name} sampled {tokens} tokens instead of {self.work.tokens}")

    def rate(self, name: str) -> float:
        """Return tokens sampled per second, the median without the first round."""
        return statistics.median(self.work.tokens / seconds for seconds in self.clock[name][1:])

    def figures(self, name: str) -> dict[str, Any]:
        """Return a contender's figures, and our speed-up by wall-clock and by CPU time."""
        ratios = {
            kind: statistics.median(
                theirs / ours for ours, theirs in zip(spent[OURS][1:], spent[name][1:], strict=True)
            )
            for kind, spent in (("ratio", self.clock), ("processor_ratio", self.processor))
        }
        return {"tokens_per_second": self.rate(name), "seconds": self.clock[name], "aim": AIMS.get(name)} | ratios

    def rows(self) -> list[str]:
        """Return table rows, one per peer."""
        rows = []
        for name in (name for name in self.contenders if name != OURS):
            figures = self.figures(name)
            met = "✓" if figures["ratio"] >= AIMS[name] else "missed"
            rows.append(
                f"| {self.name} | {self.rate(OURS):,.0f} /s | {name} | {self.rate(name):,.0f} /s "
                f"| {figures['ratio']:.2g} × | {figures['processor_ratio']:.2g} × | ≥ {AIMS[name]:g} × {met} |"
            )
        return rows or [f"| {self.name} | {self.rate(OURS):,.0f} /s | | | | | |"]


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Speed of rollouts compared with peers.")
    parser.add_argument("--trajectories", type=int, default=128)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="counted rounds; five or more for published figures")
    model = parser.add_mutually_exclusive_group()
    model.add_argument(
        "--model", type=Path, default=POCKET_CHECKPOINT, metavar="FOLDER", help="a checkpoint; pocket if not given"
    )
    model.add_argument("--shape", choices=sorted(SHAPES), help="random weights of a known shape instead")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--peers", type=Path, metavar="DIR", help="folder to install vLLM into if the project has none")
    parser.add_argument("--quick", action="store_true", help="16 trajectories of two turns")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the results to this file")
    options = parser.parse_args()
    if min(options.trajectories, options.turns, options.rounds, options.threads) < 1:
        parser.error("--trajectories, --turns, --rounds and --threads must be 1 or more")
    if options.quick:
        options.trajectories, options.turns = 16, 2
    return options


def read_model(options: argparse.Namespace, folder: Path) -> tuple[Any, Path]:
    """Return the model in this process, and its checkpoint folder for other processes."""
    if options.shape is None:
        config = PolicyConfig(device=options.device, dtype=options.dtype)
        return load(options.model, config).model, options.model
    model = build(options.shape, device=options.device, dtype=getattr(torch, options.dtype))
    model.save_pretrained(folder)
    return model, folder


def make_work(options: argparse.Namespace, vocabulary: int) -> dict[str, Work]:
    """Return the rollouts to play, by name."""
    return {
        f"{options.trajectories} × {options.turns} turns, {name}": make(
            options.trajectories, options.turns, GROUP, vocabulary, lengths
        )
        for name, lengths in LENGTHS.items()
    }


def play_rounds(contests: Sequence[RolloutComparison], rounds: int) -> None:
    """Play all contests in turn, once more than this number of rounds: the first is not counted."""
    for number in range(rounds + 1):
        for contest in contests:
            contest.play()
            took = ", ".join(f"{name} {seconds[-1]:.1f} s" for name, seconds in contest.clock.items())
            print(f"round {number} of {rounds}: {contest.name}: {took}", file=sys.stderr, flush=True)


def print_table(contests: Sequence[RolloutComparison], missing: str) -> None:
    """Print a row per contest and peer. `missing`: reason why vLLM could not be installed."""
    print("| work | ours | peer | theirs | ratio | by processor time | aim |")
    print("| --- | ---: | --- | ---: | ---: | ---: | --- |")
    print("\n".join(row for contest in contests for row in contest.rows()))
    if missing:
        print(f"| – | – | {VLLM} | {missing} | | | |")


def main() -> int:
    options = read_options()
    torch.set_num_threads(options.threads)
    host = machine.describe()
    with ExitStack() as stack:
        model, folder = read_model(options, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        work = make_work(options, model.get_input_embeddings().num_embeddings)
        contenders = {
            OURS: RolloutContender(OurSampler(model).play, time.process_time),
            GENERATE: RolloutContender(Generate(model).play, time.process_time),
        }
        versions, missing = [f"torch {torch.__version__}", f"transformers {transformers.__version__}"], ""
        try:
            context = max(rollouts.context for rollouts in work.values()) + 1
            vllm = Vllm(options.peers, folder, options.dtype, options.trajectories, context, options.threads)
            stack.enter_context(closing(vllm))
            contenders[VLLM] = RolloutContender(vllm.play, vllm.processor_seconds)
            versions.append(vllm.versions)
        except NotInstallable as reason:
            missing = str(reason)
        contests = [RolloutComparison(name, rollouts, contenders) for name, rollouts in work.items()]
        play_rounds(contests, options.rounds)
    model_text = options.shape or options.model.name
    print(host, ", ".join(versions), sep="\n")
    print(f"{model_text}, {options.dtype} on {options.device}, {options.threads} threads.")
    print(f"Medians of {options.rounds} rounds; load after them {os.getloadavg()[0]:.1f}.\n")
    print_table(contests, missing)
    if options.json:
        figures = {"machine": host, "versions": versions, "model": model_text, "rounds": options.rounds}
        figures |= {"threads": options.threads, "device": options.device, "dtype": options.dtype, "missing": missing}
        figures["contests"] = [
            {"work": contest.name, "sampled": contest.work.tokens}
            | {name: contest.figures(name) for name in contest.contenders}
            for contest in contests
        ]
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
