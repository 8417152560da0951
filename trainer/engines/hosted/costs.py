"""Usage and cost of a hosted model, and its budget."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from trainer.config.hosted import HostedConfig

_MILLION = 1_000_000


class BudgetSpentError(RuntimeError):
    """`hosted.max_cost` leaves no room for another request. The message contains the amount spent."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one request as counted by the endpoint; `cached` is the part of `prompt` read from its cache."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0


class UsageTotals:
    """Sums over all requests of a run, including earlier attempts. `cost` is 0 while no price is set."""

    def __init__(self, config: HostedConfig) -> None:
        self.config = config
        self.requests = self.retries = self.prompt = self.completion = self.cached = 0
        self.seconds = 0.0

    def add(self, usage: Usage, retries: int, seconds: float) -> None:
        """Add a completed request with its number of failed attempts and the latency of the last attempt in seconds."""
        self.requests += 1
        self.retries += retries
        self.seconds += seconds
        self.prompt += usage.prompt
        self.completion += usage.completion
        self.cached += usage.cached

    @property
    def cost(self) -> float:
        """Return the cost in the unit of the prices; an upper bound if cached tokens are cheaper."""
        return self.price(self.prompt, self.completion)

    def price(self, prompt: int, completion: int) -> float:
        """Return the price of this many tokens."""
        prompt_price, completion_price = self.config.prices
        return (prompt * prompt_price + completion * completion_price) / _MILLION

    def metrics(self) -> dict[str, float]:
        """Return the hosted/* metrics, without unknown ones."""
        metrics = {
            "hosted/requests": float(self.requests),
            "hosted/retries": float(self.retries),
            "hosted/prompt_tokens": float(self.prompt),
            "hosted/cached_tokens": float(self.cached),
            "hosted/completion_tokens": float(self.completion),
        }
        if self.requests:
            metrics["hosted/latency"] = self.seconds / self.requests
        if any(self.config.prices):
            metrics["hosted/cost"] = self.cost
        return metrics


class BudgetLimiter:
    """Async budget limiter: reserves the worst-case cost before a request starts. For one event loop.

    The reservation is kept until the actual cost is known, so the limit is respected regardless of the responses.
    """

    def __init__(self, totals: UsageTotals) -> None:
        self.totals, self.limit = totals, totals.config.max_cost
        self.active_requests = 0
        self.reserved = 0.0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def reserve(self, prompt: int, completion: int) -> AsyncIterator[None]:
        """Reserve the cost of a request for at most this many tokens; its usage is added to the totals inside.

        Raises:
            BudgetSpentError: the request does not fit, and no active request could turn out cheaper than reserved.
        """
        worst_case = self.totals.price(prompt, completion)
        async with self._changed:
            while self.limit and self.totals.cost + self.reserved + worst_case > self.limit:
                if not self.active_requests:
                    raise BudgetSpentError(
                        f"{self.totals.cost:.4f} of hosted.max_cost = {self.limit:g} are spent, and the next request "
                        f"may cost {worst_case:.4f}"
                    )
                await self._changed.wait()
            self.active_requests += 1
            self.reserved += worst_case
        try:
            yield
        finally:
            self.active_requests -= 1
            self.reserved = self.reserved - worst_case if self.active_requests else 0.0
            async with self._changed:
                self._changed.notify_all()
