"""Plays rollouts with vLLM inside an environment that has vLLM.

`python -m bench.lib.workers.vllm_worker JOB` waits for commands (worker_protocol.py) with "firsts", "observations" and
"lengths", and answers {"tokens": …}. Imports only the standard library and vLLM.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from bench.lib.worker_protocol import WorkerConnection


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
    connection, job = WorkerConnection(), json.loads(sys.argv[1])
    import torch  # after the connection: output of libraries is not a result
    import vllm

    engine = Engine(**job)
    connection.answer(versions={"vLLM": vllm.__version__, "torch": torch.__version__})
    while True:
        work = connection.next()
        engine.forget()
        connection.answer(tokens=engine.play(work["firsts"], work["observations"], work["lengths"]))


if __name__ == "__main__":
    main()
