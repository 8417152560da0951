"""Speed and memory of an update: one optimiser step on recorded dialogues, beside plain PyTorch and TRL.

    python -m bench.learner --peers DIR           # beside plain PyTorch and TRL, installed into DIR if missing
    python -m bench.learner --shape qwen2.5-0.5b  # random weights of that shape, few tokens on a CPU
    python -m bench.learner --quick               # within a minute, beside plain PyTorch alone

Weights, dialogues, advantages and loss are the same for all, and equal gradient norms are checked. Each contender runs
in its own process and takes a step on command, in turn, for several rounds after an uncounted one. Times are medians,
ratios medians of the ratios within a round. Memory is the peak of a step above the baseline of the loaded libraries (on
a GPU: the allocator's peak). CPU time sums all threads of the process and is more reliable than wall-clock time on a
busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.lib import recorded_dialogues
from bench.lib.comparison import MEBIBYTE, OURS, Comparison, ContenderSpec, Task, times
from bench.lib.peers import trl_peer
from bench.lib.peers.env_peers import NotInstallable
from bench.lib.random_models import SHAPES
from trainer.paths import POCKET_CHECKPOINT
from trainer.studies import machine

ROUNDS = 7
LARGE = ("qwen2.5-0.5b",)
"""Shapes so large that only one contender fits into memory."""
PLAIN, TRL = "plain PyTorch", "TRL"
AGREE = 0.02
"""Tolerated relative difference of gradient norms: TRL weights the entropy bonus slightly differently."""


def entries(base: dict[str, Any], peers: Path | None, missing: dict[str, str]) -> dict[str, ContenderSpec]:
    """All contenders, each with and without gradient checkpointing."""
    here = Path(sys.executable)
    workers = {OURS: (here, "bench.lib.workers.our_worker"), PLAIN: (here, "bench.lib.workers.plain_worker")}
    try:
        workers[TRL] = (trl_peer.interpreter(peers), "bench.lib.workers.trl_worker")
    except NotInstallable as reason:
        missing[TRL] = str(reason)
    contenders = {
        name + (", checkpointing" if again else ""): ContenderSpec(python, module, base | {"checkpointing": again})
        for again in (False, True)
        for name, (python, module) in workers.items()
    }
    apart = ContenderSpec(here, "bench.lib.workers.our_worker", base | {"checkpointing": False, "shared": False})
    return contenders | {f"{OURS}, without shared prompts": apart}


def table(comparison: Comparison) -> str:
    """Results as Markdown."""
    lines = ["| work | by | a step | speed | ratio | CPU time | ratio | most memory |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    lines += [
        f"| {line['work']} | {line['name']} | {line['seconds']:.3f} s | {line['tokens'] / line['seconds']:,.0f} "
        f"tokens/s | {times(line['ratio'])} | {line['cpu']:.3f} s | {times(line['cpu_ratio'])} "
        f"| {line['peak'] / MEBIBYTE:,.0f} MiB |"
        for line in comparison.figures()
    ]
    lines += [f"| – | {name} | {why} | | | | | |" for name, why in comparison.missing.items()]
    return "\n".join(lines)


def disagreement(comparison: Comparison) -> str:
    """Description of gradient norms that differ from ours; empty if none does."""
    differences = []
    for (work, name), answers in comparison.answers.items():
        ours, theirs = comparison.answers[work, OURS][0]["norm"], answers[0]["norm"]
        if abs(theirs - ours) > AGREE * abs(ours):
            differences.append(f"{work}, {name}: gradient norm {theirs:.4g}, ours {ours:.4g}")
    return "; ".join(differences)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="pocket")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rows", type=int, help="dialogues, a multiple of 8 (default 32; 8 of a large shape on a CPU)")
    parser.add_argument("--read", type=int, help="tokens of the first prompt (default 200; large on a CPU 48)")
    parser.add_argument("--written", type=int, help="maximum tokens of a response (default 64; large on a CPU 16)")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--peers", type=Path, metavar="DIR", help="folder of TRL; installed if missing")
    parser.add_argument("--quick", action="store_true", help="a few short dialogues, five rounds")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the results to this file")
    options = parser.parse_args()
    small = options.quick or (options.shape in LARGE and options.device == "cpu")
    options.rows = options.rows or (8 if small else 32)
    options.read = options.read or (48 if small else 200)
    options.written = options.written or (16 if small else 64)
    if options.rows % recorded_dialogues.GROUP:
        parser.error(f"--rows must be a multiple of {recorded_dialogues.GROUP}: that many dialogues share a prompt")
    if options.quick:
        options.rounds = min(options.rounds, 5)
    return options


def main() -> int:
    options = arguments()
    words = machine.describe()
    vocabulary = SHAPES[options.shape]["vocab_size"]
    works = {
        f"{options.rows} × ({options.read} + {options.written})": recorded_dialogues.even,
        f"{options.rows} dialogues of 1 to 5 turns": recorded_dialogues.ragged,
    }
    with tempfile.TemporaryDirectory(prefix="echoscope-learner-") as folder:
        asks: dict[str, Task] = {}
        for number, (work, make_dialogues) in enumerate(works.items()):
            dialogues = make_dialogues(options.rows, options.read, options.written, vocabulary)
            path = Path(folder) / f"{number}.json"
            recorded_dialogues.save(dialogues, path)
            asks[work] = Task("step", sum(map(len, dialogues)), {"work": str(path)})
        base = {
            "shape": options.shape,
            "seed": 0,
            "device": options.device,
            "dtype": options.dtype,
            "threads": options.threads,
            "rows": options.rows,
            "tokenizer": str(POCKET_CHECKPOINT),
        }
        missing: dict[str, str] = {}
        comparison = Comparison(
            entries(base, options.peers, missing), asks, fresh=options.shape in LARGE, missing=missing
        )
        comparison.play(
            options.rounds,
            lambda ours: ours.ask("record", works=[ask.arguments["work"] for ask in asks.values()]) and None,
            lambda text: print(text, file=sys.stderr),
        )
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
        figures |= {"settings": base, "figures": comparison.figures()}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if wrong := disagreement(comparison):
        print(f"\nNot the same work: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
