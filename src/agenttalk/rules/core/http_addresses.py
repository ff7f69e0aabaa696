"""Decides which addresses an `http` check may ask.

The engine's requests come from inside the operator's network. So it asks only addresses of the public internet, unless
the operator allowed others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.rules.text import check_words

Address = IPv4Address | IPv6Address

METADATA: Final[frozenset[Address]] = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
)
"""Addresses where clouds hand out credentials. The operator must allow each by itself; no network includes it."""

_EMBEDDING: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
"""IPv6 that a translator turns into IPv4: the last four bytes."""
_SPECIAL: Final = tuple(
    ip_network(text)
    for text in ("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4")
)
"""Networks that are not public. Versions of Python disagree about them."""
_WITH_PORT: Final = re.compile(r"(?:\[(?P<six>[^]]+)\]|(?P<four>[0-9./]+))(?::(?P<port>[0-9]{1,5}))?\Z")


class AllowedAddress(NamedTuple):
    """An address that the operator allows beyond public ones."""

    network: IPv4Network | IPv6Network
    port: int | None
    """The only allowed port; None for all."""


def read_allowed(text: str) -> AllowedAddress:
    """Read `127.0.0.1:8080`, `10.0.0.0/8`, `::1` or `[::1]:8080`. Names are refused: their address may change."""
    match = _WITH_PORT.match(text)
    host = (match["six"] or match["four"]) if match else text
    port = int(match["port"]) if match and match["port"] else None
    try:
        network = ip_network(host)
    except ValueError as error:
        hint = "write e.g. 127.0.0.1:8080, 10.0.0.0/8 or [::1]:8080"
        raise UsageError(Code.OPTION_INVALID, f"{text!r} is not an address or network: {error}", hint=hint) from error
    return AllowedAddress(network, port)


def explain_refusal(address: str, port: int, allowed: Iterable[AllowedAddress] = ()) -> str:
    """Explain why an address may not be asked. Empty if it may."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return check_words.NO_ADDRESS(address=address[:80])
    rules = tuple(allowed)
    for target in _targets(parsed):
        if _is_allowed(target, port, rules):
            continue
        if target in METADATA:
            return check_words.METADATA_ADDRESS(address=address)
        if not _is_public(target):
            return check_words.NOT_PUBLIC(address=address)
    return ""


def _targets(address: Address) -> Iterator[Address]:
    """Yield the addresses that packets may reach: the address itself, or the IPv4 ones that an IPv6 one carries."""
    if isinstance(address, IPv4Address):
        yield address
        return
    carried = (address.ipv4_mapped, address.sixtofour, *(address.teredo or ()))
    inner = [target for target in carried if target is not None]
    if any(address in network for network in _EMBEDDING):
        inner.append(IPv4Address(int(address) & 0xFFFFFFFF))
    yield from inner or [address]


def _is_allowed(address: Address, port: int, rules: tuple[AllowedAddress, ...]) -> bool:
    for network, only in rules:
        exact = network.prefixlen == network.max_prefixlen
        if address in network and only in {None, port} and (exact or address not in METADATA):
            return True
    return False


def _is_public(address: Address) -> bool:
    special = address.is_multicast or address.is_reserved or address.is_link_local
    return address.is_global and not special and not any(address in network for network in _SPECIAL)
