"""A turn that a person interrupts: its program is asked to end as Ctrl-C asks, then less politely."""

from __future__ import annotations

import asyncio

import pytest

from adapters.drivers.yard import PYTHON, Yard, dies
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.contracts.agent import Tier
from agenttalk.ports.agents import Confinement, Interruption, TurnEnd
from kits.sandboxkit import needs

AGENT = """
import os, pathlib, signal, sys, time
here = pathlib.Path({place!r})
def note(number, _):
    (here / signal.Signals(number).name).touch()
    if signal.Signals(number).name in {ends!r}:
        sys.exit(7)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, note)
child = os.fork()
if not child:
    signal.signal(signal.SIGINT, lambda *_: ((here / "child").touch(), os._exit(0)))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (here / "child.pid").write_text(str(os.getpid()))
    (here / "going").touch()
while True:
    time.sleep(0.01)
"""


def interrupted(yard: Yard, ends: str, *, patience: float, grace: float, tier: Tier = "plain") -> TurnEnd:
    """The end of a turn that is interrupted once its program and a child of it are at work."""

    async def run() -> TurnEnd:
        interruption = Interruption()
        confinement = Confinement(tier, writable=(yard.path,)) if tier != "plain" else None
        code = AGENT.format(place=str(yard.path), ends=ends)
        turn = yard.turn(*PYTHON, code, timeout=600, interruption=interruption, confinement=confinement)
        driver = ScriptDriver(LocalProcesses(), grace=grace, patience=patience)
        running = asyncio.create_task(driver.run(turn))
        await asyncio.to_thread(yard.wait_for, "going")
        assert interruption.request()
        return await running

    return asyncio.run(run())


@pytest.mark.parametrize("tier", ["plain", "landlock", "bubblewrap"])
def test_the_program_and_its_group_get_sigint_and_may_end_as_they_like(yard: Yard, tier: Tier) -> None:
    if tier != "plain":
        needs(tier)
    ended = interrupted(yard, "SIGINT", patience=600, grace=600, tier=tier)
    assert (ended.how, ended.exit_code) == ("finished", 7)
    assert not (yard.path / "SIGTERM").exists()
    if tier != "bubblewrap":  # there its number is another one
        assert all(dies(pid) for pid in yard.pids("child.pid"))
    assert yard.left_behind() == []


def test_a_program_that_goes_on_is_asked_to_end(yard: Yard) -> None:
    ended = interrupted(yard, "SIGTERM", patience=0.1, grace=600)
    assert (ended.how, ended.exit_code) == ("finished", 7)
    assert (yard.path / "SIGINT").exists()


def test_a_program_that_does_not_listen_is_killed(yard: Yard) -> None:
    ended = interrupted(yard, "nothing", patience=0.1, grace=0.1)
    assert (ended.how, ended.error) == ("crashed", "ended by SIGKILL")
    assert (yard.path / "SIGINT").exists()
    assert (yard.path / "SIGTERM").exists()
    assert all(dies(pid) for pid in yard.pids("child.pid"))
    assert yard.left_behind() == []


def test_an_interruption_of_nothing_says_so() -> None:
    interruption = Interruption()
    with interruption.answered():
        pass
    assert not interruption.request()
    assert interruption.is_requested
