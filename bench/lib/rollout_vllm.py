"""Runs inside the interpreter of a virtual environment with vLLM: plays the rollouts it is sent, one line an answer.

Reads lines of JSON {"firsts", "observations", "lengths"} and answers {"tokens": …, "seconds": …}. Only the standard
library and vLLM are imported here; bench/lib/rollout_peer.py starts it and bench/rollout.py takes the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any


class Engine:
    """vLLM with prefix caching; a trajectory's next turn is asked for as soon as its response is there."""

    def __init__(self, model: str, dtype: str, rows: int, context: int) -> None:
        from vllm import LLM, SamplingParams

        self.params = SamplingParams
        self.engine = LLM(
            model=model,
            skip_tokenizer_init=True,
            dtype=dtype,
            max_model_len=context,
            max_num_seqs=rows,
            enable_prefix_caching=True,
            disable_log_stats=True,
            seed=0,
        ).llm_engine
        self.asked = 0

    def play(self, firsts: list[list[int]], observations: list[list[list[int]]], lengths: list[list[int]]) -> int:
        """Play all trajectories to their end; how many tokens were sampled."""
        turn, texts, names, tokens = [0] * len(firsts), [list(first) for first in firsts], {}, 0
        for row in range(len(firsts)):
            names[self._ask(texts[row], lengths[row][0])] = row
        while names:
            for output in self.engine.step():
                if not output.finished:
                    continue
                row = names.pop(output.request_id)
                said = list(output.outputs[0].token_ids)
                if len(said) != lengths[row][turn[row]]:
                    raise RuntimeError(
                        f"vLLM sampled {len(said)} tokens where {lengths[row][turn[row]]} were asked for"
                    )
                tokens += len(said)
                texts[row] += said
                turn[row] += 1
                if turn[row] < len(lengths[row]):
                    texts[row] += observations[row][turn[row] - 1]
                    names[self._ask(texts[row], lengths[row][turn[row]])] = row
        return tokens

    def _ask(self, text: list[int], length: int) -> str:
        self.asked += 1
        params = self.params(
            temperature=1.0, max_tokens=length, ignore_eos=True, logprobs=0, detokenize=False, output_kind=_final()
        )
        name = str(self.asked)
        self.engine.add_request(name, {"prompt_token_ids": list(text)}, params)
        return name

    def forget(self) -> None:
        """Empty the prefix cache: the weights of the next rollout would be other ones."""
        self.engine.reset_prefix_cache()


def _final() -> Any:
    from vllm.sampling_params import RequestOutputKind

    return RequestOutputKind.FINAL_ONLY


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--dtype", required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--context", type=int, required=True)
    options = parser.parse_args()
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever the engine prints is no answer
    engine = Engine(options.model, options.dtype, options.rows, options.context)
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        engine.forget()
        work = json.loads(line)
        started = time.perf_counter()
        tokens = engine.play(work["firsts"], work["observations"], work["lengths"])
        print(json.dumps({"tokens": tokens, "seconds": time.perf_counter() - started}), file=out, flush=True)


if __name__ == "__main__":
    main()
