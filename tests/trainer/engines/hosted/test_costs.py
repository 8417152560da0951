"""Costs of hosted models: totals, budget limiter, response cache."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.config.hosted import HostedConfig
from trainer.engines.hosted.completion import Completion
from trainer.engines.hosted.costs import BudgetLimiter, BudgetSpentError, Usage, UsageTotals
from trainer.engines.hosted.hosted_client import CompletionResult
from trainer.engines.hosted.response_cache import ResponseCache, cache_key
from trainer.metrics.registry import finite


def config(**settings: Any) -> HostedConfig:
    return HostedConfig(url="http://127.0.0.1:1/v1", model="m", **settings)


def test_tokens_and_costs_are_summed() -> None:
    totals = UsageTotals(config(price_per_million=[2.0, 10.0]))
    totals.add(Usage(1_000, 100, 600), retries=2, seconds=1.0)
    totals.add(Usage(500, 50), retries=0, seconds=3.0)
    assert finite(totals.metrics()) == {
        "hosted/requests": 2,
        "hosted/retries": 2,
        "hosted/prompt_tokens": 1500,
        "hosted/cached_tokens": 600,
        "hosted/completion_tokens": 150,
        "hosted/latency": 2.0,
        "hosted/cost": pytest.approx(0.0045),
    }


def test_an_unknown_price_gives_no_cost_metric() -> None:
    assert "hosted/cost" not in UsageTotals(config()).metrics()
    assert "hosted/latency" not in UsageTotals(config()).metrics()


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50), st.floats(0, 1)), max_size=30), st.floats(0.00001, 0.002)
)
def test_the_limit_holds_for_concurrent_requests(requests: list[tuple[int, int, float]], limit: float) -> None:
    totals = UsageTotals(config(price_per_million=[1.0, 3.0], max_cost=limit))
    budget = BudgetLimiter(totals)

    async def request(prompt: int, completion: int, share: float) -> None:
        async with budget.reserve(prompt, completion):
            await asyncio.sleep(0)
            totals.add(Usage(int(prompt * share), int(completion * share)), 0, 0)
            assert totals.cost <= limit

    async def all_requests() -> list[BaseException | None]:
        return await asyncio.gather(*(request(*tokens) for tokens in requests), return_exceptions=True)

    ends = asyncio.run(all_requests())
    assert all(end is None or isinstance(end, BudgetSpentError) for end in ends)
    assert totals.cost <= limit
    assert (budget.active_requests, budget.reserved) == (0, 0)


def test_a_request_waits_while_others_may_release_budget() -> None:
    totals = UsageTotals(config(price_per_million=[1.0, 0.0], max_cost=0.0001))  # 100 tokens
    budget, order = BudgetLimiter(totals), []

    async def request(name: str, most: int, used: int) -> None:
        async with budget.reserve(most, 0):
            order.append(name)
            await asyncio.sleep(0.01)
            totals.add(Usage(used, 0), 0, 0)

    async def both() -> None:
        await asyncio.gather(request("first", 80, 10), request("second", 80, 10))

    asyncio.run(both())
    assert order == ["first", "second"]
    with pytest.raises(BudgetSpentError, match=r"0.0000 of hosted.max_cost = 0.0001 are spent, and the next"):
        asyncio.run(request("third", 90, 90))


def result_of(text: str) -> CompletionResult:
    return CompletionResult(Completion(text, (text.encode(), b"\xff"), (-0.5, -1.0), True, Usage(5, 2, 1)), 1, 0.25)


def test_a_completion_is_returned_once_per_attempt(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path)
    key = cache_key("u", {"a": 1}, 3, 0)
    assert cache.get(key) is None
    cache.put(key, result_of("é"))
    cache.close()
    again = ResponseCache(tmp_path)
    assert again.loaded == [result_of("é")]
    assert again.get(key) == result_of("é").completion
    assert again.get(key) is None
    again.close()


def test_keys_differ_by_request_dialogue_and_turn() -> None:
    keys = {
        cache_key(*arguments)
        for arguments in [
            ("u", {"a": 1}, 3, 0),
            ("v", {"a": 1}, 3, 0),
            ("u", {"a": 2}, 3, 0),
            ("u", {"a": 1}, 4, 0),
            ("u", {"a": 1}, 3, 1),
        ]
    }
    assert len(keys) == 5


@pytest.mark.parametrize("torn", [b'{"key": "x", "ans', b"\n", b'{"key": 1}\n'])
def test_an_incomplete_last_line_is_overwritten(tmp_path: Path, torn: bytes) -> None:
    cache = ResponseCache(tmp_path)
    cache.put("a", result_of("one"))
    cache.close()
    with cache.path.open("ab") as file:
        file.write(torn)
    again = ResponseCache(tmp_path)
    again.put("b", result_of("two"))
    again.close()
    assert [result.completion.text for result in ResponseCache(tmp_path).loaded] == ["one", "two"]
