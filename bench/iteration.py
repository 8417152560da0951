"""How long does an optimisation step take, rollout and update together, beside TRL's GRPOTrainer?

    python -m bench.iteration --peers DIR           # beside TRL, put into DIR when missing
    python -m bench.iteration --peers DIR --quick   # within a minute, once TRL is there

The same model, prompts (each drawn from eight times), tokens to draw, loss, threads and precision on both sides: GRPO,
temperature 1, one update from each rollout, no KL penalty; no logging, saving or evaluation. No response ends before
its full length. TRL generates with transformers, as it does without a vLLM server. Each side runs in a process of its
own and takes its step when it is told to, in turn, for several rounds after one that does not count. CPU time is that
of all the process's threads, and says more than the clock does on a machine that is busy with other things.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from bench.learner import ROUNDS, TRL
from bench.lib import trl_peer
from bench.lib.comparison import MEBIBYTE, OURS, Ask, Duel, Entry, times
from bench.lib.iteration_task import prompts
from bench.lib.peer_envs import NotInstallable
from bench.lib.random_models import SHAPES
from bench.lib.recorded_dialogues import GROUP
from trainer.paths import POCKET_CHECKPOINT
from trainer.studies import machine

AIM = 2.0
"""How many times ours TRL's step should take."""


def table(duel: Duel) -> str:
    """For people."""
    lines = ["| work | by | a step | rollout | update | tokens/s | ratio | CPU time | ratio | most memory |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for line in duel.figures():
        ratio = times(line["ratio"])
        if line["name"] == TRL:
            ratio += f" (aim ≥ {AIM:.0f} × {'✓' if line['ratio'] >= AIM else 'missed'})"
        lines.append(
            f"| {line['work']} | {line['name']} | {line['seconds']:.3f} s | {line['rollout']:.3f} s "
            f"| {line['update']:.3f} s | {line['tokens'] / line['seconds']:,.0f} | {ratio} | {line['cpu']:.3f} s "
            f"| {times(line['cpu_ratio'])} | {line['peak'] / MEBIBYTE:,.0f} MiB |"
        )
    lines += [f"| – | {name} | {why} | | | | | | | |" for name, why in duel.missing.items()]
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
    parser.add_argument("--peers", type=Path, metavar="DIR", help="where TRL is, or is to be installed")
    parser.add_argument("--quick", action="store_true", help="8 × (64 + 16) tokens, five rounds")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    given = parser.parse_args()
    if given.rows % GROUP:
        parser.error(f"--rows must be a multiple of {GROUP}: that many responses share a prompt")
    if given.quick:
        given.rows, given.read, given.written, given.rounds = 8, 64, 16, min(given.rounds, 5)
    words = machine.describe()
    base: dict[str, Any] = {
        "shape": given.shape,
        "seed": 0,
        "device": given.device,
        "dtype": given.dtype,
        "threads": given.threads,
        "rows": given.rows,
        "tokenizer": str(POCKET_CHECKPOINT),
        "checkpointing": False,
        "written": given.written,
        "prompts": prompts(given.rows, given.read),
    }
    entries = {OURS: Entry(Path(sys.executable), "bench.lib.our_worker", base)}
    missing = {}
    try:
        entries[TRL] = Entry(trl_peer.interpreter(given.peers), "bench.lib.trl_worker", base)
    except NotInstallable as reason:
        missing[TRL] = str(reason)
    tokens = given.rows * (given.read + given.written)
    duel = Duel(entries, {f"{given.rows} × ({given.read} + {given.written})": Ask("iterate", tokens)}, missing=missing)
    duel.play(given.rounds, lambda ours: None, lambda text: print(text, file=sys.stderr))
    versions = ", ".join(f"{name} {number}" for name, number in duel.versions.items())
    print(f"{words}\n{given.shape}, {given.dtype}, {given.device}, {given.threads} threads; {versions}")
    print(f"Medians of {given.rounds} rounds.\n\n{table(duel)}")
    if given.json:
        figures = {"machine": words, "versions": duel.versions, "rounds": given.rounds, "missing": duel.missing}
        figures |= {"settings": base, "aim": AIM, "figures": duel.figures()}
        given.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
