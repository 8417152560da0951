"""Speed of a whole iteration, rollout and update, beside TRL's GRPOTrainer.

    python -m bench.iteration --peers DIR           # beside TRL, installed into DIR if missing
    python -m bench.iteration --peers DIR --quick   # within a minute, once TRL is installed

Model, prompts (eight samples each), sampled tokens, loss, threads and precision are the same on both sides: GRPO,
temperature 1, one update per rollout, no KL penalty; no logging, saving or evaluation. Every response is sampled to its
full length. TRL generates with transformers, its default without a vLLM server. Each side runs in its own process and
takes a step on command, in turn, for several rounds after an uncounted one. CPU time sums all threads of the process
and is more reliable than wall-clock time on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from bench.learner import ROUNDS, TRL
from bench.lib.comparison import MEBIBYTE, OURS, Comparison, ContenderSpec, Task, times
from bench.lib.iteration_task import prompts
from bench.lib.peers import trl_peer
from bench.lib.peers.env_peers import NotInstallable
from bench.lib.random_models import SHAPES
from bench.lib.recorded_dialogues import GROUP
from trainer.paths import POCKET_CHECKPOINT
from trainer.studies import machine

AIM = 2.0
"""Target ratio of TRL's step time to ours."""


def table(comparison: Comparison) -> str:
    """Results as Markdown."""
    lines = ["| work | by | a step | rollout | update | tokens/s | ratio | CPU time | ratio | most memory |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for line in comparison.figures():
        ratio = times(line["ratio"])
        if line["name"] == TRL:
            ratio += f" (aim ≥ {AIM:.0f} × {'✓' if line['ratio'] >= AIM else 'missed'})"
        lines.append(
            f"| {line['work']} | {line['name']} | {line['seconds']:.3f} s | {line['rollout']:.3f} s "
            f"| {line['update']:.3f} s | {line['tokens'] / line['seconds']:,.0f} | {ratio} | {line['cpu']:.3f} s "
            f"| {times(line['cpu_ratio'])} | {line['peak'] / MEBIBYTE:,.0f} MiB |"
        )
    lines += [f"| – | {name} | {why} | | | | | | | |" for name, why in comparison.missing.items()]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="pocket")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rows", type=int, default=32, help="responses, a multiple of 8")
    parser.add_argument("--read", type=int, default=200, help="tokens of a prompt")
    parser.add_argument("--written", type=int, default=64, help="tokens of a response")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--peers", type=Path, metavar="DIR", help="folder of TRL; installed if missing")
    parser.add_argument("--quick", action="store_true", help="8 × (64 + 16) tokens, five rounds")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the results to this file")
    options = parser.parse_args()
    if options.rows % GROUP:
        parser.error(f"--rows must be a multiple of {GROUP}: that many responses share a prompt")
    if options.quick:
        options.rows, options.read, options.written, options.rounds = 8, 64, 16, min(options.rounds, 5)
    words = machine.describe()
    base: dict[str, Any] = {
        "shape": options.shape,
        "seed": 0,
        "device": options.device,
        "dtype": options.dtype,
        "threads": options.threads,
        "rows": options.rows,
        "tokenizer": str(POCKET_CHECKPOINT),
        "checkpointing": False,
        "written": options.written,
        "prompts": prompts(options.rows, options.read),
    }
    entries = {OURS: ContenderSpec(Path(sys.executable), "bench.lib.workers.our_worker", base)}
    missing = {}
    try:
        entries[TRL] = ContenderSpec(trl_peer.interpreter(options.peers), "bench.lib.workers.trl_worker", base)
    except NotInstallable as reason:
        missing[TRL] = str(reason)
    tokens = options.rows * (options.read + options.written)
    comparison = Comparison(
        entries, {f"{options.rows} × ({options.read} + {options.written})": Task("iterate", tokens)}, missing=missing
    )
    comparison.play(options.rounds, lambda ours: None, lambda text: print(text, file=sys.stderr))
    versions = ", ".join(f"{name} {number}" for name, number in comparison.versions.items())
    print(f"{words}\n{options.shape}, {options.dtype}, {options.device}, {options.threads} threads; {versions}")
    print(f"Medians of {options.rounds} rounds.\n\n{table(comparison)}")
    if options.json:
        figures = {
            "machine": words,
            "versions": comparison.versions,
            "rounds": options.rounds,
            "missing": comparison.missing,
        }
        figures |= {"settings": base, "aim": AIM, "figures": comparison.figures()}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
