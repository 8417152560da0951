"""Divergence of vLLM and the trainer before and after a weight update, for bench/engines.py: one line of JSON.

    python -m bench.lib.workers.engine_sync_worker CHECKPOINT

Runs in an environment with vLLM. The engine starts with the weights of the shipped policy.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from tests.vllm.shapes import GREEDY, k3, openings_of, said
from trainer.config.run import PolicyConfig, RunConfig
from trainer.engines.sampler import SamplingParams
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.engines.vllm.vllm_sampler import VllmSampler
from trainer.paths import POCKET_CHECKPOINT
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import load

PROMPTS = 64
DRAWN = SamplingParams(max_tokens=48)


def main() -> int:
    policy, trained = (load(source, PolicyConfig(device="cpu")) for source in (POCKET_CHECKPOINT, Path(sys.argv[1])))
    chat = ChatFormat(policy.tokenizer, think=True)
    prompts = openings_of(chat, PROMPTS)
    sampler = VllmSampler(RunConfig.model_validate({"engine": {"name": "vllm"}}), policy, chat.eos_id)
    try:
        same = k3(policy, prompts, said(sampler, prompts, DRAWN))
        policy.model.load_state_dict(trained.model.state_dict())
        before = k3(policy, prompts, said(sampler, prompts, DRAWN))
        sampler.weights_updated()
        after = k3(policy, prompts, said(sampler, prompts, DRAWN))
        torch.set_num_threads(1)
        own = said(TransformersSampler(policy.model, chat.eos_id), prompts, GREEDY)
        equal = sum(ours.ids == theirs.ids for ours, theirs in zip(own, said(sampler, prompts, GREEDY), strict=True))
    finally:
        sampler.close()
    print(json.dumps({"same": same, "before": before, "after": after, "equal": equal, "prompts": PROMPTS}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
