"""Parts of an update on the CPU, each beside the way it was computed before or is computed for other models.

    python -m bench.update_variants            # 32 dialogues of Sokoban's shape with the pocket policy
    python -m bench.update_variants --quick    # 16 dialogues, three rounds

Gradients of one optimiser step: as trained; with the last layer computed for all tokens; with micro-batches of 16,384
tokens; with attention calls for lengths up to twice as long and 256 queries; with all three. And the log-probabilities
of 16 thoughts after 16 prompts, with shared prompts and row by row. All run in this process, in turn, for several
rounds after an uncounted one. Times are CPU seconds, medians; ratios are medians of the ratios within a round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from bench.lib.recorded_dialogues import GROUP, Dialogue
from bench.lib.rollout_workload import make
from bench.lib.workers.our_worker import OurWorker, batch, settings
from trainer.config.run import PolicyConfig
from trainer.learner.mutual_information import cross_scores
from trainer.learner.step_losses import StepLosses
from trainer.learner.update_batch import UpdateTensors
from trainer.paths import POCKET_CHECKPOINT
from trainer.policy.load import Policy, load
from trainer.policy.packing import last_layer, layout, segment_attention
from trainer.studies import machine

TURNS, RESPONSE, THOUGHT = 5, 42, 26
AS_TRAINED, SHARED = "as trained", "prompts shared"
LARGE_TOKENS = 16_384


def dialogues(rows: int, vocabulary: int) -> tuple[list[Dialogue], list[list[int]]]:
    """Dialogues of 1 to TURNS turns in equal shares, and their distinct first prompts."""
    work = make(rows, TURNS, GROUP, vocabulary, (RESPONSE, RESPONSE))
    found = []
    for row, (first, observations) in enumerate(zip(work.firsts, work.observations, strict=True)):
        rest: list[int] = []
        sampled: list[bool] = []
        for turn in range(1 + row % TURNS):
            seen = observations[turn - 1] if turn else []
            rest += seen + first[:RESPONSE]
            sampled += [False] * len(seen) + [True] * RESPONSE
        found.append(Dialogue(first, rest, sampled, float(row % 3)))
    return found, [list(first) for first in dict.fromkeys(map(tuple, work.firsts))]


@contextmanager
def whole_last_layer(model: Any) -> Iterator[None]:
    """The last layer computes all tokens."""
    last_layer.release(model)
    try:
        yield
    finally:
        last_layer.restrict(model)


@contextmanager
def coarse_calls(model: Any) -> Iterator[None]:
    """Attention calls as on a GPU."""
    with patch.dict(layout._MAX_LENGTH_RATIO, clear=True), patch.dict(segment_attention._QUERY_CHUNK, clear=True):
        yield


def variants(rows: int) -> dict[str, dict[str, Callable[[], object]]]:
    """By measurement, what is timed; the first of each is the default."""
    policy = load(POCKET_CHECKPOINT, PolicyConfig(device="cpu"))
    model = policy.model
    found, _ = dialogues(rows, model.config.vocab_size)
    _, prompts = dialogues(16 * GROUP, model.config.vocab_size)
    worker = OurWorker(model, settings(rows))
    learner, own = worker.learner, batch(worker.record(found))
    zeros = torch.zeros_like(own.rewards)
    advantages = torch.where(own.mask, torch.randn(own.mask.shape, generator=torch.Generator().manual_seed(0)), 0.0)
    tensors = UpdateTensors(advantages, zeros, zeros, own.sampler_logprobs, None)
    losses = StepLosses(worker.config, own, tensors)

    def step(*changes: Callable[[Any], Any], tokens: int = learner.oom_retry.tokens) -> None:
        with ExitStack() as stack:
            for change in changes:
                stack.enter_context(change(model))
            learner.zero_grad()
            losses.backward(learner.planner.plan(own).micro_batches(tokens), learner.network, None)

    def scores(*, shared: bool) -> None:
        thoughts = [first[:THOUGHT] for first in prompts]
        bare = Policy(model, SimpleNamespace(pad_token_id=0, eos_token_id=1))
        cross_scores(bare, prompts, thoughts, range(len(prompts)), LARGE_TOKENS, share_prompts=shared)

    return {
        f"gradients of {rows} dialogues, {int(own.attention.sum()):,} tokens": {
            AS_TRAINED: step,
            "last layer for all tokens": lambda: step(whole_last_layer),
            f"micro-batches of {LARGE_TOKENS:,} tokens": lambda: step(tokens=LARGE_TOKENS),
            "attention calls as on a GPU": lambda: step(coarse_calls),
            "all three": lambda: step(whole_last_layer, coarse_calls, tokens=LARGE_TOKENS),
        },
        f"{len(prompts)} thoughts after {len(prompts)} prompts": {
            SHARED: lambda: scores(shared=True),
            "row by row": lambda: scores(shared=False),
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=32, help=f"dialogues, a multiple of {GROUP}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="16 dialogues, three rounds")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the results to this file")
    options = parser.parse_args()
    rows, rounds = (16, 3) if options.quick else (options.rows, options.rounds)
    if rows % GROUP:
        parser.error(f"--rows must be a multiple of {GROUP}: that many dialogues share a prompt")
    torch.set_num_threads(1)
    seconds: dict[tuple[str, str], list[float]] = {}
    measured = variants(rows)
    for number in range(rounds + 1):
        for work, ways in measured.items():
            for way, run in ways.items():
                began = time.process_time()
                run()
                if number:
                    seconds.setdefault((work, way), []).append(time.process_time() - began)
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
    lines, figures = [], []
    for (work, way), times in seconds.items():
        base = seconds[work, next(iter(measured[work]))]
        ratio = statistics.median(other / own for own, other in zip(base, times, strict=True))
        lines.append(f"| {work} | {way} | {statistics.median(times):.2f} s | {ratio:.2f} × |")
        figures.append({"work": work, "way": way, "seconds": times, "ratio": ratio})
    print(f"{machine.describe()}, one thread; medians of {rounds} rounds.\n")
    print("| work | computed | CPU time | ratio |", "| --- | --- | ---: | ---: |", *lines, sep="\n")
    if options.json:
        facts = {"machine": machine.describe(), "rounds": rounds, "figures": figures}
        options.json.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
