"""vLLM before and after it is given a trained policy's weights, for bench/engines.py: one line of JSON.

    python -m bench.engines_sync CHECKPOINT

Runs where vLLM is installed. The engine starts with the shipped policy's weights.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from tests.vllm.shapes import GREEDY, k3, openings_of, said
from trainer.config import PolicyConfig, RunConfig
from trainer.dialogue import ChatFormat
from trainer.policies import load
from trainer.samplers.base import SamplingParams
from trainer.samplers.transformers import TransformersSampler
from trainer.samplers.vllm import VllmSampler
from trainer.warmup import SHIPPED

PROMPTS = 64
DRAWN = SamplingParams(max_tokens=48)


def main() -> int:
    policy, trained = (load(source, PolicyConfig(device="cpu")) for source in (SHIPPED, Path(sys.argv[1])))
    chat = ChatFormat(policy.tokenizer, think=True)
    prompts = openings_of(chat, PROMPTS)
    sampler = VllmSampler(RunConfig.model_validate({"engine": {"name": "vllm"}}), policy, chat.eos_id)
    try:
        same = k3(policy, prompts, said(sampler, prompts, DRAWN))
        policy.model.load_state_dict(trained.model.state_dict())
        before = k3(policy, prompts, said(sampler, prompts, DRAWN))
        sampler.refresh()
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
