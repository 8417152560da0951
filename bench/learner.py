"""How fast is an update, and what does it hold? One optimiser step on recorded dialogues, ours and other people's.

    python -m bench.learner --peers DIR           # beside plain PyTorch and TRL, put into DIR when missing
    python -m bench.learner --shape qwen2.5-0.5b  # random weights of that shape, few tokens on a CPU
    python -m bench.learner --quick               # within a minute, beside plain PyTorch alone

All begin with the same weights and get the same dialogues, advantages and loss; that their gradients' norms agree is
checked. Each runs in a process of its own and takes its step when it is told to, in turn, for several rounds after
one that does not count. Times are medians, ratios medians of the ratios within a round. Memory is the most that a
process held in a step above what its libraries hold (on a GPU: what the allocator gave out). CPU time is that of all
the process's threads, and says more than the clock does on a machine that is busy with other things.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.lib import recorded_dialogues, trl_peer
from bench.lib.comparison import MEBIBYTE, OURS, Ask, Duel, Entry, times
from bench.lib.peer_envs import NotInstallable
from bench.lib.random_models import SHAPES
from trainer.paths import POCKET_CHECKPOINT
from trainer.studies import machine

ROUNDS = 7
LARGE = ("qwen2.5-0.5b",)
"""Shapes of which a machine may hold one at a time."""
PLAIN, TRL = "plain PyTorch", "TRL"
AGREE = 0.02
"""Gradients' norms may differ by this share: the entropy bonus is weighted a little differently in TRL."""


def entries(base: dict[str, Any], peers: Path | None, missing: dict[str, str]) -> dict[str, Entry]:
    """Everybody who takes part, each without and with gradient checkpointing."""
    here = Path(sys.executable)
    known = {OURS: (here, "bench.lib.our_worker"), PLAIN: (here, "bench.lib.plain_worker")}
    try:
        known[TRL] = (trl_peer.interpreter(peers), "bench.lib.trl_worker")
    except NotInstallable as reason:
        missing[TRL] = str(reason)
    found = {
        name + (", checkpointing" if again else ""): Entry(python, module, base | {"checkpointing": again})
        for again in (False, True)
        for name, (python, module) in known.items()
    }
    apart = Entry(here, "bench.lib.our_worker", base | {"checkpointing": False, "shared": False})
    return found | {f"{OURS}, every prompt anew": apart}


def table(duel: Duel) -> str:
    """For people."""
    lines = ["| work | by | a step | speed | ratio | CPU time | ratio | most memory |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    lines += [
        f"| {line['work']} | {line['name']} | {line['seconds']:.3f} s | {line['tokens'] / line['seconds']:,.0f} "
        f"tokens/s | {times(line['ratio'])} | {line['cpu']:.3f} s | {times(line['cpu_ratio'])} "
        f"| {line['peak'] / MEBIBYTE:,.0f} MiB |"
        for line in duel.figures()
    ]
    lines += [f"| – | {name} | {why} | | | | | |" for name, why in duel.missing.items()]
    return "\n".join(lines)


def disagreement(duel: Duel) -> str:
    """Which first gradients differ from ours, in words; empty when none does."""
    found = []
    for (work, name), answers in duel.answers.items():
        ours, theirs = duel.answers[work, OURS][0]["norm"], answers[0]["norm"]
        if abs(theirs - ours) > AGREE * abs(ours):
            found.append(f"{work}, {name}: gradient norm {theirs:.4g}, ours {ours:.4g}")
    return "; ".join(found)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="pocket")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rows", type=int, help="dialogues, a multiple of 8 (default 32; 8 of a large shape on a CPU)")
    parser.add_argument("--read", type=int, help="tokens of the first prompt (default 200; large on a CPU 48)")
    parser.add_argument("--written", type=int, help="most tokens of a response (default 64; large on a CPU 16)")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--peers", type=Path, metavar="DIR", help="where TRL is, or is to be installed")
    parser.add_argument("--quick", action="store_true", help="a few short dialogues, five rounds")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    given = parser.parse_args()
    small = given.quick or (given.shape in LARGE and given.device == "cpu")
    given.rows = given.rows or (8 if small else 32)
    given.read = given.read or (48 if small else 200)
    given.written = given.written or (16 if small else 64)
    if given.rows % recorded_dialogues.GROUP:
        parser.error(f"--rows must be a multiple of {recorded_dialogues.GROUP}: that many dialogues share a prompt")
    if given.quick:
        given.rounds = min(given.rounds, 5)
    return given


def main() -> int:
    given = arguments()
    words = machine.describe()
    vocabulary = SHAPES[given.shape]["vocab_size"]
    works = {
        f"{given.rows} × ({given.read} + {given.written})": recorded_dialogues.even,
        f"{given.rows} dialogues of 1 to 5 turns": recorded_dialogues.ragged,
    }
    with tempfile.TemporaryDirectory(prefix="echoscope-learner-") as folder:
        asks: dict[str, Ask] = {}
        for number, (work, made) in enumerate(works.items()):
            dialogues = made(given.rows, given.read, given.written, vocabulary)
            path = Path(folder) / f"{number}.json"
            recorded_dialogues.save(dialogues, path)
            asks[work] = Ask("step", sum(map(len, dialogues)), {"work": str(path)})
        base = {
            "shape": given.shape,
            "seed": 0,
            "device": given.device,
            "dtype": given.dtype,
            "threads": given.threads,
            "rows": given.rows,
            "tokenizer": str(POCKET_CHECKPOINT),
        }
        missing: dict[str, str] = {}
        duel = Duel(entries(base, given.peers, missing), asks, fresh=given.shape in LARGE, missing=missing)
        duel.play(
            given.rounds,
            lambda ours: ours.ask("record", works=[ask.arguments["work"] for ask in asks.values()]) and None,
            lambda text: print(text, file=sys.stderr),
        )
    versions = ", ".join(f"{name} {number}" for name, number in duel.versions.items())
    print(f"{words}\n{given.shape}, {given.dtype}, {given.device}, {given.threads} threads; {versions}")
    print(f"Medians of {given.rounds} rounds.\n\n{table(duel)}")
    if given.json:
        figures = {"machine": words, "versions": duel.versions, "rounds": given.rounds, "missing": duel.missing}
        figures |= {"settings": base, "figures": duel.figures()}
        given.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if wrong := disagreement(duel):
        print(f"\nNot the same work: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
