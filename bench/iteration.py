"""Speed and memory of a whole iteration, rollout and update, or of an update, compared with TRL's GRPOTrainer.

    python -m bench.iteration --peers DIR                    # with TRL, installed into DIR if missing
    python -m bench.iteration --update --peers DIR           # one step on recorded dialogues, also with plain PyTorch
    python -m bench.iteration --update --shape qwen2.5-0.5b  # random weights of that shape, few tokens on a CPU
    python -m bench.iteration --quick                        # within a minute, once TRL is installed

An iteration: model, prompts (eight samples each), sampled tokens, loss, threads and precision are the same on both
sides: GRPO, temperature 1, one update per rollout, no KL penalty; no logging, saving or evaluation. Every response is
sampled to its full length. TRL generates with transformers, its default without a vLLM server.

An update: weights, dialogues, advantages and loss are the same for all, and equal gradient norms are checked.

Each contender runs in its own process and takes a step on command, in turn, for several rounds after an uncounted one.
Times are medians, ratios medians of the ratios within a round. Memory is the peak of a step above the baseline of the
loaded libraries (on a GPU: the allocator's peak). CPU time sums all threads of the process and is more reliable than
wall-clock time on a busy machine.
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
from bench.lib.iteration_task import prompts
from bench.lib.peers import trl_peer
from bench.lib.peers.env_peers import NotInstallable
from bench.lib.random_models import SHAPES
from bench.lib.recorded_dialogues import GROUP
from trainer.paths import POCKET_CHECKPOINT
from trainer.studies import machine

AIM = 2.0
"""Target ratio of TRL's time of an iteration to ours."""
LARGE = ("qwen2.5-0.5b",)
"""Shapes so large that only one contender fits into memory."""
PLAIN, TRL = "plain PyTorch", "TRL"
AGREE = 0.02
"""Tolerated relative difference of gradient norms: TRL weights the entropy bonus slightly differently."""
COLUMNS = ("work", "by", "a step", "rollout", "update", "tokens/s", "ratio", "CPU time", "ratio", "most memory")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="only the update, on recorded dialogues")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="pocket")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rows", type=int, help="responses, a multiple of 8 (default 32; 8 of a large shape on a CPU)")
    parser.add_argument("--read", type=int, help="tokens of a prompt (default 200; large on a CPU 48)")
    parser.add_argument("--written", type=int, help="most tokens of a response (default 64; large on a CPU 16)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", type=Path, metavar="DIR", help="folder of TRL; installed if missing")
    parser.add_argument("--quick", action="store_true", help="few tokens, five rounds")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the results to this file")
    options = parser.parse_args()
    small = options.quick or (options.shape in LARGE and options.device == "cpu")
    options.rows = options.rows or (8 if small else 32)
    options.read = options.read or (48 if small else 200)
    options.written = options.written or (16 if small else 64)
    if options.rows % GROUP:
        parser.error(f"--rows must be a multiple of {GROUP}: that many responses share a prompt")
    if options.quick:
        options.rounds = min(options.rounds, 5)
    return options


def contenders(
    base: dict[str, Any], update: bool, peers: Path | None
) -> tuple[dict[str, ContenderSpec], dict[str, str]]:
    """Return the contenders (of an update, with and without gradient checkpointing), and why others are missing."""
    here, missing = Path(sys.executable), {}
    workers = {OURS: (here, "bench.lib.workers.our_worker")}
    if update:
        workers[PLAIN] = (here, "bench.lib.workers.plain_worker")
    try:
        workers[TRL] = (trl_peer.interpreter(peers), "bench.lib.workers.trl_worker")
    except NotInstallable as reason:
        missing[TRL] = str(reason)
    specs = {
        name + (", checkpointing" if again else ""): ContenderSpec(python, module, base | {"checkpointing": again})
        for again in ((False, True) if update else (False,))
        for name, (python, module) in workers.items()
    }
    if update:
        apart = base | {"checkpointing": False, "shared": False}
        specs[f"{OURS}, without shared prompts"] = ContenderSpec(*workers[OURS], apart)
    return specs, missing


def record_dialogues(options: argparse.Namespace, folder: Path) -> dict[str, Task]:
    """Return tasks of an update by name, with their dialogues in files."""
    works = {
        f"{options.rows} × ({options.read} + {options.written})": recorded_dialogues.even,
        f"{options.rows} dialogues of 1 to 5 turns": recorded_dialogues.ragged,
    }
    tasks = {}
    for number, (work, make_dialogues) in enumerate(works.items()):
        vocabulary = SHAPES[options.shape]["vocab_size"]
        dialogues = make_dialogues(options.rows, options.read, options.written, vocabulary)
        path = folder / f"{number}.json"
        recorded_dialogues.save(dialogues, path)
        tasks[work] = Task("step", sum(map(len, dialogues)), {"work": str(path)})
    return tasks


def table(comparison: Comparison, aim: float | None = None) -> str:
    """Return results as Markdown. `aim` is the target of TRL's ratio."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"| --- | --- |{' ---: |' * (len(COLUMNS) - 2)}"]
    for line in comparison.figures():
        ratio = times(line["ratio"])
        if aim and line["name"] == TRL:
            ratio += f" (aim ≥ {aim:.0f} × {'✓' if line['ratio'] >= aim else 'missed'})"
        lines.append(
            f"| {line['work']} | {line['name']} | {line['seconds']:.3f} s | {line['rollout']:.3f} s "
            f"| {line['update']:.3f} s | {line['tokens'] / line['seconds']:,.0f} | {ratio} | {line['cpu']:.3f} s "
            f"| {times(line['cpu_ratio'])} | {line['peak'] / MEBIBYTE:,.0f} MiB |"
        )
    lines += [f"| – | {name} | {why} |{' |' * (len(COLUMNS) - 3)}" for name, why in comparison.missing.items()]
    return "\n".join(lines)


def disagreement(comparison: Comparison) -> str:
    """Describe gradient norms that differ from ours; empty if none does."""
    differences = []
    for (work, name), answers in comparison.answers.items():
        ours, theirs = comparison.answers[work, OURS][0]["norm"], answers[0]["norm"]
        if abs(theirs - ours) > AGREE * abs(ours):
            differences.append(f"{work}, {name}: gradient norm {theirs:.4g}, ours {ours:.4g}")
    return "; ".join(differences)


def main() -> int:
    options = read_options()
    host = machine.describe()
    base: dict[str, Any] = {name: getattr(options, name) for name in ("shape", "device", "dtype", "threads", "rows")}
    base |= {"seed": 0, "tokenizer": str(POCKET_CHECKPOINT)}
    with tempfile.TemporaryDirectory(prefix="echoscope-update-") as folder:
        if options.update:
            tasks = record_dialogues(options, Path(folder))
        else:
            base |= {"written": options.written, "prompts": prompts(options.rows, options.read)}
            tokens = options.rows * (options.read + options.written)
            tasks = {f"{options.rows} × ({options.read} + {options.written})": Task("iterate", tokens)}
        specs, missing = contenders(base, options.update, options.peers)
        fresh = options.update and options.shape in LARGE
        comparison = Comparison(specs, tasks, fresh=fresh, missing=missing)
        recorded = [task.arguments["work"] for task in tasks.values() if "work" in task.arguments]
        comparison.play(
            options.rounds,
            lambda ours: ours.ask("record", works=recorded) if recorded else None,
            lambda text: print(text, file=sys.stderr),
        )
    versions = ", ".join(f"{name} {number}" for name, number in comparison.versions.items())
    aim = None if options.update else AIM
    print(f"{host}\n{options.shape}, {options.dtype}, {options.device}, {options.threads} threads; {versions}")
    print(f"Medians of {options.rounds} rounds.\n\n{table(comparison, aim)}")
    if options.json:
        figures = {"machine": host, "versions": comparison.versions, "rounds": options.rounds, "aim": aim}
        figures |= {"missing": comparison.missing, "settings": base, "figures": comparison.figures()}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if options.update and (wrong := disagreement(comparison)):
        print(f"\nNot the same work: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
