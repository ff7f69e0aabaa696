"""What all tests share: which of them `make test` runs and which `make test-rest`, and with how many random cases."""

from __future__ import annotations

import fcntl
import functools
import gc
import importlib
import os
import pkgutil
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

import agenttalk
import hanging
import postgres_cluster
from effort import DEEP, cases
from kits.sandboxkit import PLAIN_VARIABLE

# Else each worker, and each process that it starts, compiles everything anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell has the programs ignore it that it starts in the background, and they hand that on to what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "agenttalk",
    max_examples=cases(60),
    deadline=None,  # a busy machine is no fault of the code
    derandomize=not DEEP,  # the short run is the same everywhere; the long one looks further
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("agenttalk")

TESTS: Final = Path(__file__).parent
MEASURED: Final = ("contracts/", "rules/", "adapters/forge/")
"""Folders whose tests have to reach every branch of contracts/ and rules/.

Lines are counted while they run and at no other time: it doubles what a test takes, and a branch that is met only
on the way through an engine is not tested but visited.
"""


LONG: Final = frozenset(
    {
        "test_agent_state_machine",
        "test_asked_models",
        "test_attacks",
        "test_browser",
        "test_burst",
        "test_cli",
        "test_costs",
        "test_crashes",
        "test_draft",
        "test_hidden_checks",
        "test_fuzz",
        "test_gc",
        "test_heartbeat_crashes",
        "test_history_costs",
        "test_openapi",
        "test_people_decide",
        "test_prepared_work",
        "test_random_plans",
        "test_smoke",
        "test_spoken_run",
        "test_stale_done",
        "test_state_machine",
        "test_suites",
        "test_walk",
    }
)
"""Modules with tests that take long. They come first, so that in the end nobody waits for one that began last."""


@pytest.fixture(autouse=True, scope="module")
def _nothing_is_remembered(request: pytest.FixtureRequest) -> None:
    """What is computed once in a process is computed again: whoever came before may not have been counted."""
    if not str(request.path.relative_to(TESTS)).startswith(MEASURED):
        return
    ours = [
        module for name, module in sys.modules.items() if name.startswith(("agenttalk.contracts", "agenttalk.rules"))
    ]
    for each in [value for module in ours for value in vars(module).values()]:
        if isinstance(each, functools._lru_cache_wrapper):
            each.cache_clear()


@pytest.fixture(autouse=True)
def _no_hanging() -> Iterator[None]:
    yield from hanging.ended()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Collect without a search for garbage, and keep later searches from what was collected, which stays anyway."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark what is asked for by `-m`, have it chosen, and then put it in order."""
    if (unknown := _unknown(items)) and not any("::" in word for word in config.args):
        raise pytest.UsageError("; ".join(unknown))
    for item in items:
        measured = str(item.path.relative_to(TESTS)).startswith(MEASURED)
        item.add_marker(pytest.mark.measured if measured else pytest.mark.no_cover)
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.random)
        if _is_in_the_tail(item):
            item.add_marker(pytest.mark.rest)
    yield
    items[:] = _spread(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Where tests are only collected, load what they load later, so that it is compiled (`make .venv/.compiled`)."""
    if session.config.option.collectonly:
        for module in pkgutil.walk_packages(agenttalk.__path__, "agenttalk."):
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)


def _is_in_the_tail(item: pytest.Item) -> bool:
    """Whether it is one of the cases that are left to `make test-rest`, see the marker `rest_but`."""
    found = item.get_closest_marker("rest_but")
    return found is not None and not set(found.args) & _names(item)


def _names(item: pytest.Item) -> set[str]:
    """What a case is called: its id, and each of its parts."""
    case = getattr(item, "callspec", None)
    return set() if case is None else {case.id, *case.id.split("-")}


def _unknown(items: list[pytest.Item]) -> list[str]:
    """Cases that `rest_but` names and that do not exist."""
    named: dict[tuple[Path, str], set[str]] = {}
    for item in items:
        if (found := item.get_closest_marker("rest_but")) is not None:
            key = (item.path, getattr(item, "originalname", item.name))
            named[key] = named.get(key, set(found.args)) - _names(item)
    return [f"{path.name}::{name} has no case {', '.join(left)}" for (path, name), left in named.items() if left]


def _spread(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The same, long ones at the head of each worker's share, which is a part of the list."""
    long = [item for item in items if item.path.stem in LONG]
    rest = iter([item for item in items if item.path.stem not in LONG])
    found: list[pytest.Item] = []
    for worker in range(workers):
        mine = long[worker::workers]
        found += [*mine, *islice(rest, max(0, len(items) // workers - len(mine)))]
    return [*found, *rest]


UNCONFINED: Final = ("crash/", "doors/", "honesty/", "engine/mail/", "engine/toolchain/")
"""Folders whose subject is not isolation, but for these modules: there the operator says `plain`, because programs leave
marks for the test beside themselves. Examples, pages of the documentation and the demo are run as they are."""
CONFINED: Final = frozenset(
    {
        "test_agent_tools",
        "test_attacks",
        "test_canary",
        "test_confined",
        "test_doctor",
        "test_draft",
        "test_hidden_checks",
        "test_init",
        "test_isolation_door",
        "test_loading",
        "test_own_attempt",
        "test_settings",
        "test_spoken_run",
        "test_spoken_tools",
    }
)


@pytest.fixture(autouse=True)
def _operators_word(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, module = str(request.path.relative_to(TESTS)), request.path.stem
    if module == "test_seed_commands" or (folder.startswith(UNCONFINED) and module not in CONFINED):
        monkeypatch.setenv(PLAIN_VARIABLE, "plain")


_HOME: Final = pytest.StashKey[Path]()
"""The folder in which a PostgreSQL cluster lies, if a test needs one."""


def pytest_configure(config: pytest.Config) -> None:
    told: dict[str, str] | None = getattr(config, "workerinput", None)
    if told is not None:
        config.stash[_HOME] = Path(told["cluster"])
        return
    memory = Path("/dev/shm")  # processes are killed here, not machines: no disk is needed
    where = memory if os.access(memory, os.W_OK) else None
    config.stash[_HOME] = Path(tempfile.mkdtemp(prefix="agenttalk-pg-", dir=where))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist."""
    node.workerinput["cluster"] = str(node.config.stash[_HOME])


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        postgres_cluster.stop(config.stash[_HOME])
        shutil.rmtree(config.stash[_HOME])


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> str:
    """The URL of a PostgreSQL cluster of our own, which all workers share. The first that needs it starts it."""
    if postgres_cluster.programs() is None:
        pytest.skip(postgres_cluster.MISSING)
    home = request.config.stash[_HOME]
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return postgres_cluster.start(home)
