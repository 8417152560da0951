"""Plays rollouts with vLLM inside an environment that has vLLM.

Reads lines of JSON {"firsts", "observations", "lengths"} and answers {"tokens": …, "seconds": …}. Imports only the
standard library and vLLM.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any


class Engine:
    """vLLM with prefix caching; the next turn of a trajectory is submitted as soon as its response is complete."""

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
        self.submitted = 0

    def play(self, firsts: list[list[int]], observations: list[list[list[int]]], lengths: list[list[int]]) -> int:
        """Play all trajectories to the end; returns the number of sampled tokens."""
        turn, texts, names, tokens = [0] * len(firsts), [list(first) for first in firsts], {}, 0
        for row in range(len(firsts)):
            names[self._ask(texts[row], lengths[row][0])] = row
        while names:
            for output in self.engine.step():
                if not output.finished:
                    continue
                row = names.pop(output.request_id)
                response = list(output.outputs[0].token_ids)
                if len(response) != lengths[row][turn[row]]:
                    raise RuntimeError(
                        f"vLLM sampled {len(response)} tokens where {lengths[row][turn[row]]} were requested"
                    )
                tokens += len(response)
                texts[row] += response
                turn[row] += 1
                if turn[row] < len(lengths[row]):
                    texts[row] += observations[row][turn[row] - 1]
                    names[self._ask(texts[row], lengths[row][turn[row]])] = row
        return tokens

    def _ask(self, text: list[int], length: int) -> str:
        self.submitted += 1
        params = self.params(
            temperature=1.0, max_tokens=length, ignore_eos=True, logprobs=0, detokenize=False, output_kind=_final()
        )
        name = str(self.submitted)
        self.engine.add_request(name, {"prompt_token_ids": list(text)}, params)
        return name

    def forget(self) -> None:
        """Empty the prefix cache: the next rollout would have new weights."""
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
    os.dup2(2, 1)  # output of the engine is not a result
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
