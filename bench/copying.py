"""Copying by the pocket policy: with an induction head at the start of its training, and without one.

    python -m bench.copying                # 300 steps each, about two minutes on one core
    python -m bench.copying --steps 1000

Both models train on the same texts. Figures are the shares of copied tokens that each would write, in unseen texts of
64, 256 and 512 tokens.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from trainer.config.run import WarmupConfig
from trainer.imitation.copying import copyable_tokens, copying_batch, copying_loss, share_copied
from trainer.imitation.courses import COURSES
from trainer.imitation.warmup import corpus, learning_rate
from trainer.policy import pocket

LENGTHS = (64, 256, 512)
EVERY = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="optimiser steps of each model")
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    course, peak = COURSES["webshop"], WarmupConfig(course="webshop").resolved().learning_rate or 0.0
    tokenizer = pocket.build_tokenizer(corpus(course, 0), course.tokens)
    tokens = copyable_tokens(tokenizer)
    unseen = [copying_batch(tokens, np.random.default_rng(1), length) for length in LENGTHS]
    for name, induction in (("induction head", True), ("random start", False)):
        model, rng = pocket.build_model(tokenizer, 0), np.random.default_rng(0)
        if induction:
            pocket.induction_head(model, 0)
        optimizer = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.01, betas=(0.9, 0.95))
        for step in range(steps + 1):
            if step % EVERY == 0 or step == steps:
                shares = ", ".join(f"{share_copied(model, batch):.1%} of {batch.ids.shape[1]}" for batch in unseen)
                print(f"{name}, step {step}: copied {shares} tokens", flush=True)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, steps, peak)
            optimizer.zero_grad(set_to_none=True)
            copying_loss(model, copying_batch(tokens, rng)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()


if __name__ == "__main__":
    main()
