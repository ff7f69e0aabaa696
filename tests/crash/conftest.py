"""The processes that give birth to all others are started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crash.harness import Harness, harness


@pytest.fixture(scope="package")
def crash() -> Iterator[Harness]:
    with harness() as found:
        yield found
