"""What asking a hosted model took: requests, tokens, money, and the limit that the next request must fit under."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from trainer.config.hosted import HostedConfig
from trainer.engines.hosted.errors import BudgetSpentError

_MILLION = 1_000_000


@dataclass(frozen=True)
class Usage:
    """Tokens of one request as the endpoint counts them. `cached` are those of `prompt` that it had read before."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0


class UsageTotals:
    """Sums over all requests of a run, earlier attempts included. `cost` is 0 while no price is known."""

    def __init__(self, config: HostedConfig) -> None:
        self.config = config
        self.requests = self.retries = self.prompt = self.completion = self.cached = 0
        self.seconds = 0.0

    def answered(self, usage: Usage, retries: int, seconds: float) -> None:
        """An answer came, after so many failed tries, `seconds` after its last request was sent."""
        self.requests += 1
        self.retries += retries
        self.seconds += seconds
        self.prompt += usage.prompt
        self.completion += usage.completion
        self.cached += usage.cached

    @property
    def cost(self) -> float:
        """In the unit of the prices; cached tokens count in full, so that it may be less in truth."""
        return self.price(self.prompt, self.completion)

    def price(self, prompt: int, completion: int) -> float:
        """Of so many tokens."""
        return (
            prompt * self.config.prompt_price_per_million + completion * self.config.completion_price_per_million
        ) / _MILLION

    def values(self) -> dict[str, float]:
        """hosted/*: see the table of metrics. What is not known is left out."""
        found = {
            "hosted/requests": float(self.requests),
            "hosted/retries": float(self.retries),
            "hosted/prompt_tokens": float(self.prompt),
            "hosted/cached_tokens": float(self.cached),
            "hosted/completion_tokens": float(self.completion),
        }
        if self.requests:
            found["hosted/latency"] = self.seconds / self.requests
        if self.config.prompt_price_per_million or self.config.completion_price_per_million:
            found["hosted/cost"] = self.cost
        return found


class BudgetLimiter:
    """Lets a request begin only if the most it may cost still fits under the limit; of one event loop.

    What is under way is held back until its true cost is known, so that the limit holds whatever the models write.
    """

    def __init__(self, account: UsageTotals) -> None:
        self.account, self.limit = account, account.config.max_cost
        self.under_way = 0
        self.held = 0.0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def hold(self, prompt: int, completion: int) -> AsyncIterator[None]:
        """Of a request with at most so many tokens, which is booked before this is left.

        Raises:
            BudgetSpentError: it does not fit, and nothing is under way that could turn out cheaper.
        """
        most = self.account.price(prompt, completion)
        async with self._changed:
            while self.limit and self.account.cost + self.held + most > self.limit:
                if not self.under_way:
                    raise BudgetSpentError(
                        f"{self.account.cost:.4f} of hosted.max_cost = {self.limit:g} are spent, and the next request "
                        f"may cost {most:.4f}"
                    )
                await self._changed.wait()
            self.under_way += 1
            self.held += most
        try:
            yield
        finally:
            self.under_way -= 1
            self.held = self.held - most if self.under_way else 0.0
            async with self._changed:
                self._changed.notify_all()
