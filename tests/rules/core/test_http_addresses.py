"""Which addresses the engine asks."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.errors import UsageError
from agenttalk.rules.core.http_addresses import METADATA, explain_refusal, read_allowed


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "2002:5db8:d822::"])
def test_public_addresses_are_asked(address: str) -> None:
    assert explain_refusal(address, 80) == ""


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.1.1",
        "192.0.0.170",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "localhost",
        "",
    ],
)
def test_addresses_of_our_own_network_are_refused(address: str) -> None:
    assert explain_refusal(address, 80)


@pytest.mark.parametrize("address", sorted(map(str, METADATA)))
def test_addresses_that_hand_out_credentials_are_refused_even_inside_an_allowed_network(address: str) -> None:
    around = [read_allowed(text) for text in ("0.0.0.0/0", "::/0")]
    assert "credentials" in explain_refusal(address, 80, around)
    assert explain_refusal(address, 80, [*around, read_allowed(address)]) == ""


@pytest.mark.parametrize(
    ("allowed", "address", "port", "fine"),
    [
        ("127.0.0.1", "127.0.0.1", 80, True),
        ("127.0.0.1", "127.0.0.2", 80, False),
        ("127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("127.0.0.1:8080", "127.0.0.1", 80, False),
        ("127.0.0.1:8080", "::ffff:127.0.0.1", 8080, True),
        ("10.0.0.0/8", "10.9.9.9", 1, True),
        ("10.0.0.0/8:81", "10.9.9.9", 1, False),
        ("::1", "::1", 1, True),
        ("[::1]:81", "::1", 81, True),
        ("[::1]:81", "::1", 82, False),
        ("[fd00::/8]", "fd12::1", 82, True),
        ("10.0.0.0/8", "::1", 1, False),
    ],
)
def test_an_operator_allows_what_he_names_and_no_more(allowed: str, address: str, port: int, fine: bool) -> None:
    assert (explain_refusal(address, port, [read_allowed(allowed)]) == "") is fine


@pytest.mark.parametrize("text", ["localhost", "", "10.0.0.1/8", "[::1", "127.0.0.1:x", "[10.0.0.999]:1"])
def test_what_is_no_address_cannot_be_allowed(text: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        read_allowed(text)


@given(st.integers(0, 2**32 - 1))
def test_an_address_is_judged_alike_in_all_its_dresses(number: int) -> None:
    plain = IPv4Address(number)
    judged = bool(explain_refusal(str(plain), 80))
    for base in (0xFFFF << 32, 0x0064FF9B << 96):
        assert bool(explain_refusal(str(IPv6Address(base | number)), 80)) is judged
    assert bool(explain_refusal(str(IPv6Address(0x2002 << 112 | number << 80)), 80)) is judged


@given(st.ip_addresses(v=4))
def test_no_private_address_is_ever_public(address: IPv4Address) -> None:
    if address.is_private or address.is_loopback or address.is_link_local or address.is_multicast:
        assert explain_refusal(str(address), 80)
