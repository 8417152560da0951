"""What is done when a GPU's memory runs out while learning: the micro-batch is halved, once, and the work done again.

Work that is done again must count nothing twice: `forget` undoes what a broken attempt left. Rollouts have their own
way (samplers/waves.py); what should fit in the first place is reckoned in memory.py.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from trainer.policy.load import ModelError

T = TypeVar("T")


class OutOfMemoryError(ModelError):
    """The device's memory ran out, and smaller pieces did not help. The message says what to set."""


class OomRetry:
    """The most tokens of a micro-batch: what the settings say, or half of that once it was too much.

    Args:
        tokens: what the settings say.
        alone: whether an attempt can be made again without others: processes that hold a part of the weights each
            compute at the same time, and one of them cannot begin anew.
    Attributes:
        tell: receives a sentence for people when the micro-batch is halved.
    """

    def __init__(self, tokens: int, *, alone: bool = True) -> None:
        self.asked, self.tokens, self.alone = tokens, tokens, alone
        self.tell: Callable[[str], None] = lambda message: None

    def attempt(self, work: Callable[[], T], forget: Callable[[], None] = lambda: None) -> T:
        """Do the work; where the memory runs out, once more with micro-batches half as large.

        Args:
            work: reads `tokens` anew each time it is called.
            forget: undoes what was left by work that broke off.
        Raises:
            NoRoomError: it ran out again.
        """
        while True:
            try:
                return work()
            except torch.OutOfMemoryError as error:
                if self.tokens < self.asked or not self.alone:
                    raise OutOfMemoryError(self._too_much()) from error
            # Here, not above: until the handler is left, the error holds on to everything the work had made.
            forget()
            empty_cache()
            self.tokens = max(1, self.asked // 2)
            self.tell(
                f"The GPU's memory ran out while learning with optimizer.micro_batch_tokens={self.asked}: the step is "
                f"done again with {self.tokens}, and nothing is counted twice. To begin with that, set "
                f"optimizer.micro_batch_tokens={self.tokens}; optimizer.gradient_checkpointing=true takes less, too."
            )

    def _too_much(self) -> str:
        tried = f"the GPU's memory ran out while learning with micro-batches of {self.tokens} tokens"
        halved = f", half of optimizer.micro_batch_tokens = {self.asked}" if self.tokens < self.asked else ""
        return f"{tried}{halved}: {ADVICE}"


ADVICE = (
    "switch on optimizer.gradient_checkpointing, lower optimizer.micro_batch_tokens, set policy.dtype to bfloat16, "
    "train adapters (lora.rank) or allow shorter responses (rollout.max_response_tokens); `python -m trainer "
    "estimate-memory` tells what each would save"
)


def empty_cache() -> None:
    """Let go of what broken work left behind, so that it can be had in pieces of another size."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def oom_errors() -> Iterator[None]:
    """Memory that runs out anywhere inside the block ends in a NoRoomError that says what to set."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfMemoryError(f"the GPU's memory ran out ({str(error).split('. ')[0]}): {ADVICE}") from error
