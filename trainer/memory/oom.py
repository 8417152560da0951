"""Out-of-memory retry of the update: one retry with half the micro-batch."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from trainer.policy.load import ModelError

T = TypeVar("T")


class OutOfMemoryError(ModelError):
    """The device ran out of memory, and smaller micro-batches did not help. The message says what to set."""


class OomRetry:
    """Maximum tokens per micro-batch: the configured number, or half of it after an out-of-memory error.

    Args:
        configured: the setting `optimizer.micro_batch_tokens`.
        enabled: False where processes compute in step on sharded weights: a single one cannot start over.
    Attributes:
        tokens: the current maximum.
        on_retry: receives a message for the user when the micro-batch is halved.
    """

    def __init__(self, configured: int, *, enabled: bool = True) -> None:
        self.configured, self.tokens, self.enabled = configured, configured, enabled
        self.on_retry: Callable[[str], None] = lambda message: None

    def run(self, phase: Callable[[int], T]) -> T:
        """Run a phase of the update; if it runs out of memory, run it again with half the micro-batch.

        Args:
            phase: takes the maximum tokens per micro-batch and starts from scratch each time.
        Raises:
            OutOfMemoryError: out of memory again, in this phase or a later one.
        """
        while True:
            try:
                return phase(self.tokens)
            except torch.OutOfMemoryError as error:
                if self.tokens < self.configured or not self.enabled:
                    raise OutOfMemoryError(self._message()) from error
            # Not in the handler: until it is left, the error's traceback keeps the tensors of the failed run alive.
            empty_cache()
            self.tokens = max(1, self.configured // 2)
            self.on_retry(
                f"The GPU's memory ran out while learning with optimizer.micro_batch_tokens={self.configured}: the "
                f"step is retried with {self.tokens}, and nothing is counted twice. To start with that, set "
                f"optimizer.micro_batch_tokens={self.tokens}; optimizer.gradient_checkpointing=true also saves memory."
            )

    def _message(self) -> str:
        failed = f"the GPU's memory ran out while learning with micro-batches of {self.tokens} tokens"
        halved = f", half of optimizer.micro_batch_tokens = {self.configured}" if self.tokens < self.configured else ""
        return f"{failed}{halved}: {ADVICE}"


ADVICE = (
    "switch on optimizer.gradient_checkpointing, lower optimizer.micro_batch_tokens, set policy.dtype to bfloat16, "
    "train adapters (lora.rank) or allow shorter responses (rollout.max_response_tokens); `python -m trainer "
    "estimate-memory` shows what each would save"
)


def empty_cache() -> None:
    """Free cached GPU memory, so that it can be allocated in blocks of other sizes."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def oom_errors() -> Iterator[None]:
    """Turn an out-of-memory error inside the block into an OutOfMemoryError that says what to set."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfMemoryError(f"the GPU's memory ran out ({str(error).split('. ')[0]}): {ADVICE}") from error
