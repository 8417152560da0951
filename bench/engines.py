"""Training through vLLM compared with training through transformers: metrics of a preset's first iterations per seed.

    python -m bench.engines --keep DIR                       # five iterations, three seeds: about ten minutes
    python -m bench.engines --keep DIR --vllm-python PYTHON  # interpreter with vLLM; default: .venv-vllm of the project

The engines sample different tokens, so the runs differ: the table compares means over iterations and seeds, with the
difference in standard errors. The last lines show the divergence of sampler and trainer (k3, an estimate of the KL
divergence in nats) with the weights before and after the training. Existing runs in DIR are reused.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.lib.peers.vllm_peer import OURS as VLLM_FOLDER
from trainer.journal.events import Evaluation, Metrics
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.reader import read
from trainer.studies import machine

ENGINES = ("transformers", "vllm")
METRICS = {
    "reward/mean": "Mean reward",
    "reward/in_group_std": "Spread within groups",
    "success/rate": "Success while training",
    "eval/Sokoban/success": "Success on the fixed prompts",
    "entropy/mean": "Entropy, nats",
    "policy/grad_norm": "Gradient norm",
    "policy/kl_to_rollout": "KL to the policy that played, nats",
    "policy/kl_to_initial": "KL to the initial policy, nats",
    "policy/clip_fraction_low": "Clipped below",
    "policy/clip_fraction_high": "Clipped above",
    "format/valid_rate": "Valid answers",
    "length/response": "Tokens of a response",
    "turns/mean": "Turns",
    "mismatch/k3": "k3 between sampler and trainer, nats",
}


def train(python: Path, options: argparse.Namespace, engine: str, seed: int) -> Path:
    """Train one run unless it exists. Returns its folder."""
    folder: Path = options.keep / f"{engine}-{seed}"
    if not (folder / JOURNAL_FILE).is_file():
        print(f"training {folder.name}", file=sys.stderr, flush=True)
        overrides = {"iterations": options.iterations, "seed": seed, "engine.name": engine, "algorithm.tis_cap": 2}
        sets = [word for name, value in overrides.items() for word in ("--set", f"{name}={value}")]
        command = [str(python), "-m", "trainer", "train", "--preset", options.preset, *sets, "--out", str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=Path(__file__).parents[1])
    return folder


def means(folder: Path) -> dict[str, float]:
    """Mean of every metric over the iterations, and the success of the last evaluation."""
    values: dict[str, list[float]] = {}
    for event in read(folder / JOURNAL_FILE):
        if isinstance(event, Metrics):
            for name, value in event.values.items():
                values.setdefault(name, []).append(value)
        elif isinstance(event, Evaluation) and event.iteration:
            values[f"eval/{event.suite}/success"] = [event.success]
    return {name: statistics.mean(numbers) for name, numbers in values.items()}


def compare(runs: dict[str, list[dict[str, float]]]) -> list[dict[str, Any]]:
    """By metric: both means over the seeds, their difference, and its standard error (None for one seed)."""
    lines = []
    for name in METRICS:
        one, other = ([run[name] for run in runs[engine] if name in run] for engine in ENGINES)
        if not one or not other:
            continue
        error = None
        if min(len(one), len(other)) > 1:
            error = math.sqrt(statistics.variance(one) / len(one) + statistics.variance(other) / len(other))
        lines.append(
            {"metric": name, "error": error} | dict(zip(ENGINES, map(statistics.mean, (one, other)), strict=True))
        )
    return lines


def row(line: dict[str, Any]) -> str:
    one, other = (line[engine] for engine in ENGINES)
    error = line["error"]
    apart = f"{(other - one) / error:+.1f}" if error else "–"
    return f"| {METRICS[line['metric']]} | {one:.4g} | {other:.4g} | {other - one:+.2g} | {apart} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, required=True, metavar="DIR", help="where the runs are kept")
    parser.add_argument("--preset", default="sokoban-starpo_s-pocket")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--vllm-python", type=Path, default=VLLM_FOLDER / "bin" / "python", metavar="PYTHON")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the results to this file")
    options = parser.parse_args()
    if not options.vllm_python.is_file():
        parser.error(f"no Python with vLLM at {options.vllm_python}: see `make test-vllm` and --vllm-python")
    options.keep.mkdir(parents=True, exist_ok=True)
    options.keep = options.keep.resolve()
    pythons = {"transformers": Path(sys.executable), "vllm": options.vllm_python}
    runs: dict[str, list[dict[str, float]]] = {engine: [] for engine in ENGINES}
    for seed in range(1, options.seeds + 1):
        for engine in ENGINES:
            runs[engine].append(means(train(pythons[engine], options, engine, seed)))
    lines = compare(runs)
    trained = sorted((options.keep / "vllm-1" / "checkpoints").iterdir())[-1]
    command = [str(options.vllm_python), "-m", "bench.lib.workers.engine_sync_worker", str(trained)]
    quiet = os.environ | {"VLLM_LOGGING_LEVEL": "ERROR"}
    answer = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1], env=quiet
    )
    synced = json.loads(answer.stdout.splitlines()[-1])
    print(f"{machine.describe()}\n{options.preset}, {options.iterations} iterations, {options.seeds} seeds\n")
    print("| mean over iterations and seeds | transformers | vLLM | difference | in standard errors |")
    print("| --- | ---: | ---: | ---: | ---: |", *map(row, lines), sep="\n")
    print(
        f"\nk3 of vLLM's draws: {synced['same']:.2g} nats with the weights that it began with; {synced['before']:.2g} "
        f"once the policy is trained and before the sync; {synced['after']:.2g} after it. Greedy output equals that of "
        f"transformers for {synced['equal']} of {synced['prompts']} prompts."
    )
    if options.json:
        options.json.write_text(json.dumps({"metrics": lines, "sync": synced}, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
