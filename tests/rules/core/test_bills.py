"""What requests to models cost, priced as they come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.adapters.drivers.prices import price_well_known
from agenttalk.contracts.model_use import Prices
from agenttalk.rules.agents.model_services import price_request
from agenttalk.rules.core.usage import Bill, BilledTokens, unpriced


def by_the_token(_model: str, billed: BilledTokens) -> float:
    return float(sum(billed))


@pytest.mark.mends("C2")
def test_a_request_that_grows_is_counted_once_and_never_less() -> None:
    bill = Bill(by_the_token)
    assert bill.add("m", "one", BilledTokens(5)) == 5
    assert bill.add("m", "one", BilledTokens(5, 2)) == 7
    assert bill.add("m", "one", BilledTokens(1)) == 7
    assert bill.add("m", "two", BilledTokens(3)) == 10
    assert not bill.unknown


@pytest.mark.mends("C2")
def test_of_a_model_without_a_price_the_bill_names_the_model() -> None:
    bill = Bill(unpriced)
    assert bill.add("home-made", "one", BilledTokens(5)) == 0
    assert bill.unknown == "home-made"
    assert Bill(unpriced).add("", "one", BilledTokens(5)) == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 100)), max_size=30))
def test_a_bill_never_shrinks(told: list[tuple[str, int]]) -> None:
    bill = Bill(by_the_token)
    sums = [bill.add("m", request, BilledTokens(count)) for request, count in told]
    assert sums == sorted(sums)


def test_prices_that_know_no_cache_count_it_as_read() -> None:
    assert (
        price_request(
            Prices(input_per_million=2, output_per_million=10), BilledTokens(100_000, 100_000, 200_000, 200_000)
        )
        == 2
    )


@pytest.mark.mends("C2")
@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "anthropic/claude-sonnet-4-5", "claude-sonnet-4-5[1m]"])
def test_well_known_models_have_a_price_however_an_agent_spells_them(name: str) -> None:
    assert price_well_known(name, BilledTokens(100_000)) == pytest.approx(0.3)
    assert price_well_known(name, BilledTokens(0, 0, 100_000)) == pytest.approx(0.03)


@pytest.mark.parametrize("name", ["", "home-made"])
def test_no_price_is_made_up(name: str) -> None:
    assert price_well_known(name, BilledTokens(100_000)) is None
