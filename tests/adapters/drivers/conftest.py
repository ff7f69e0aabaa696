"""What tests of drivers share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.drivers.yard import Yard


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    """A place for programs. Whatever they leave behind is ended, and is a failure."""
    yard = Yard(tmp_path, lease=f"lease_{tmp_path.name}_{tmp_path.parent.name}")
    yield yard
    assert yard.left_behind() == []
