"""What hosted models cost: sums that are right, a limit that holds whatever they write, a ledger that survives."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.config.hosted import HostedConfig
from trainer.engines.hosted.completion import Completion
from trainer.engines.hosted.costs import BudgetLimiter, Usage, UsageTotals
from trainer.engines.hosted.errors import BudgetSpentError
from trainer.engines.hosted.hosted_client import CompletionRequest
from trainer.engines.hosted.response_cache import ResponseCache, key_of
from trainer.metrics.registry import finite


def config(**settings: float) -> HostedConfig:
    return HostedConfig(url="http://127.0.0.1:1/v1", model="m", **settings)


def test_tokens_and_money_are_summed() -> None:
    account = UsageTotals(config(prompt_price_per_million=2.0, completion_price_per_million=10.0))
    account.answered(Usage(1_000, 100, 600), retries=2, seconds=1.0)
    account.answered(Usage(500, 50), retries=0, seconds=3.0)
    assert finite(account.values()) == {
        "hosted/requests": 2,
        "hosted/retries": 2,
        "hosted/prompt_tokens": 1500,
        "hosted/cached_tokens": 600,
        "hosted/completion_tokens": 150,
        "hosted/latency": 2.0,
        "hosted/cost": pytest.approx(0.0045),
    }


def test_an_unknown_price_is_no_cost_of_zero() -> None:
    assert "hosted/cost" not in UsageTotals(config()).values()
    assert "hosted/latency" not in UsageTotals(config()).values()


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50), st.floats(0, 1)), max_size=30), st.floats(0.00001, 0.002)
)
def test_the_limit_is_never_passed_however_many_ask_at_once(asks: list[tuple[int, int, float]], limit: float) -> None:
    account = UsageTotals(config(prompt_price_per_million=1.0, completion_price_per_million=3.0, max_cost=limit))
    purse = BudgetLimiter(account)

    async def one(prompt: int, completion: int, share: float) -> None:
        async with purse.hold(prompt, completion):
            await asyncio.sleep(0)
            account.answered(Usage(int(prompt * share), int(completion * share)), 0, 0)
            assert account.cost <= limit

    async def everybody() -> list[BaseException | None]:
        return await asyncio.gather(*(one(*ask) for ask in asks), return_exceptions=True)

    ends = asyncio.run(everybody())
    assert all(end is None or isinstance(end, BudgetSpentError) for end in ends)
    assert account.cost <= limit
    assert (purse.under_way, purse.held) == (0, 0)


def test_a_request_waits_while_others_may_turn_out_cheaper() -> None:
    account = UsageTotals(config(prompt_price_per_million=1.0, max_cost=0.0001))  # 100 tokens
    purse, order = BudgetLimiter(account), []

    async def one(name: str, most: int, used: int) -> None:
        async with purse.hold(most, 0):
            order.append(name)
            await asyncio.sleep(0.01)
            account.answered(Usage(used, 0), 0, 0)

    async def both() -> None:
        await asyncio.gather(one("first", 80, 10), one("second", 80, 10))

    asyncio.run(both())
    assert order == ["first", "second"]
    with pytest.raises(BudgetSpentError, match=r"0.0000 of hosted.max_cost = 0.0001 are spent, and the next"):
        asyncio.run(one("third", 90, 90))


def paid(text: str) -> CompletionRequest:
    return CompletionRequest(Completion(text, (text.encode(), b"\xff"), (-0.5, -1.0), True, Usage(5, 2, 1)), 1, 0.25)


def test_what_was_paid_for_is_found_again_once(tmp_path: Path) -> None:
    ledger = ResponseCache(tmp_path)
    key = key_of("u", {"a": 1}, 3, 0)
    assert ledger.find(key) is None
    ledger.keep(key, paid("é"))
    ledger.close()
    again = ResponseCache(tmp_path)
    assert again.paid == [paid("é")]
    assert again.find(key) == paid("é").answer
    assert again.find(key) is None
    again.close()


def test_keys_tell_requests_dialogues_and_turns_apart() -> None:
    keys = {
        key_of(*given)
        for given in [
            ("u", {"a": 1}, 3, 0),
            ("v", {"a": 1}, 3, 0),
            ("u", {"a": 2}, 3, 0),
            ("u", {"a": 1}, 4, 0),
            ("u", {"a": 1}, 3, 1),
        ]
    }
    assert len(keys) == 5


@pytest.mark.parametrize("torn", [b'{"key": "x", "ans', b"\n", b'{"key": 1}\n'])
def test_a_torn_end_is_cut_off_and_written_over(tmp_path: Path, torn: bytes) -> None:
    ledger = ResponseCache(tmp_path)
    ledger.keep("a", paid("one"))
    ledger.close()
    with ledger.path.open("ab") as file:
        file.write(torn)
    again = ResponseCache(tmp_path)
    again.keep("b", paid("two"))
    again.close()
    assert [asked.answer.text for asked in ResponseCache(tmp_path).paid] == ["one", "two"]
