"""What tests of checks share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from adapters.checking.bench import Bench
from agenttalk.adapters import overlay_process
from agenttalk.adapters.overlays import OverlayMounts
from agenttalk.contracts.agent import Tier
from kits.sandboxkit import needs


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Bench]:
    """A checkout without the sandbox. Whatever a check leaves behind is ended, and is a failure."""
    yield from _bench(tmp_path, "plain")


@pytest.fixture
def boxed(tmp_path: Path) -> Iterator[Bench]:
    """A checkout with the sandbox."""
    needs("bubblewrap")
    yield from _bench(tmp_path, "bubblewrap")


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Bench]:
    """A checkout with landlock."""
    needs("landlock")
    yield from _bench(tmp_path, "landlock")


@pytest.fixture
def layered(tmp_path: Path) -> Iterator[Bench]:
    """A checkout with the sandbox that is an overlay, as a user without rights can have it."""
    needs("bubblewrap")
    try:
        mounts = OverlayMounts(overlay_process.USER)
    except OSError as error:
        pytest.skip(f"no overlays here: {error}")
    try:
        if not mounts.work_in(tmp_path):
            pytest.skip("overlays do not work here")
        for name in ("lower", "layered/upper", "layered/work", "layered/tree"):
            (tmp_path / name).mkdir(parents=True)
        (tmp_path / "lower/pristine.txt").write_text("pristine\n")
        seen = mounts.mount(tmp_path, "layered", "lower")
        (seen / "pristine.txt").unlink()
        for made in _bench(tmp_path, "bubblewrap"):
            yield replace(made, seen=seen, context=replace(made.context, namespace=mounts.namespace))
        assert [path.name for path in (tmp_path / "lower").iterdir()] == ["pristine.txt"]
        assert (tmp_path / "lower/pristine.txt").read_text() == "pristine\n"
    finally:
        mounts.close()


@pytest.fixture(
    params=[
        "plain",
        "boxed",
        pytest.param("locked", marks=pytest.mark.rest),
        pytest.param("layered", marks=pytest.mark.rest),
    ]
)
def bench(request: pytest.FixtureRequest) -> Bench:
    """A checkout, without a sandbox and with each."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Bench)
    return found


def _bench(path: Path, tier: Tier) -> Iterator[Bench]:
    with TemporaryDirectory() as temporary:
        made = Bench(path, tier)
        made = Bench(path, tier, replace(made.context, temporary=Path(temporary)))
        made.checkout.mkdir()
        yield made
        assert made.left_behind() == []
        assert os.listdir(temporary) == []  # noqa: PTH208 - names are all that is asked
