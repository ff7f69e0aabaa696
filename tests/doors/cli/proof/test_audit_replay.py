"""`agenttalk audit replay`: which of what was called done would a policy have refused? Nothing changes by asking."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.contracts.policy import policy_of
from agenttalk.doors.cli.main import call
from agenttalk.engine.proof import policy_replay
from agenttalk.engine.proof.policy_replay import ReplayQuery
from kits.agentkit import Clock
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import CALC, FIXES, RUNS, SUITE, program, promise, repository


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root in which a check passed, a result was enough, and a person took refused work as it was."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    repo = repository(tmp_path / "repo", {"calc.py": CALC, "test_calc.py": SUITE})
    clock = Clock()

    async def use(engine: Engine) -> None:
        check = {"id": "tests-pass", "kind": "run", "run": RUNS, "protected": ["test_calc.py"]}
        green = {"id": "there", "kind": "run", "run": "test -e calc.py"}
        fixed = plan(
            task("fix", "dev", promise=promise(check, green), workspace="repo"),
            task("say"),
            agents={"dev": program(tmp_path, "dev", FIXES)},
            workspace={"repo": str(repo)},
        )
        await engine.submit(fixed)
        assert (await engine.ended()).result == "done"
        clock.forward(10 * 86_400)
        stubborn = plan(task("mute", "mute"), plan_id="q", policies={"max_reexecute_times": 0})
        await engine.submit(stubborn)
        assert states(await engine.ended("q"))["mute"] == "FAILED"
        await engine.asked()
        await engine.answer("PROVIDE", answers=["accept"])
        await engine.until(lambda now: states(now)["mute"] == "COMPLETED", "q")

    async def mute(_: Turn) -> str:
        return ""

    play(tmp_path / "root", use, proving=True, clock=clock, mute=mute)
    return tmp_path / "root"


def exported(root: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What stands in the ledger of the plans."""
    assert call(["audit", "export", "--out", str(root / "ledger"), "--root", str(root)]) == 0
    capsys.readouterr()
    return [line for line in (root / "ledger").read_text().splitlines() if '"board":"default"' in line]


def asked(
    root: Path, capsys: pytest.CaptureFixture[str], policy: Any, *words: str, code: int
) -> dict[str, tuple[str, Any]]:
    """What a policy says of each task, and how much of each."""
    (root / "policy.json").write_text(json.dumps(policy))
    said = ["audit", "replay", "--policy", str(root / "policy.json"), *words, "--root", str(root), "--json"]
    assert call(said) == code
    found = json.loads(capsys.readouterr().out)
    assert sum(found["totals"].values()) == len(found["dones"])
    assert found["ok"] is (code == 0)
    return {each["task_id"]: (each["standing"], each["reasons"]) for each in found["dones"]}


@pytest.mark.mends("A8")
@pytest.mark.parametrize("policy", [{"red_first": "required"}, {"refuse": ["weak"]}])
def test_a_check_that_was_never_to_be_seen_failing_is_not_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: Any
) -> None:
    repo = repository(tmp_path / "repo", {"calc.py": CALC, "test_calc.py": SUITE})
    check = {"id": "tests-pass", "kind": "run", "run": RUNS, "red_first": "off"}
    agents = {"dev": program(tmp_path, "dev", FIXES)}
    said = plan(
        task("fix", "dev", promise=promise(check), workspace="repo"), agents=agents, workspace={"repo": str(repo)}
    )

    async def use(engine: Engine) -> None:
        await engine.submit(said)
        assert (await engine.ended()).result == "done"

    play(tmp_path / "root", use, proving=True)
    [(standing, reasons)] = asked(tmp_path / "root", capsys, policy, code=1).values()
    assert standing == "refused"
    assert "red_first: off" in reasons[0]


def test_each_done_is_judged_again_from_what_was_kept(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = exported(root, capsys)
    found = asked(root, capsys, {"min_trust": "observed"}, code=0)
    assert found == {"mute": ("kept", []), "say": ("kept", []), "fix": ("kept", [])}
    found = asked(root, capsys, {"min_trust": "executed"}, code=1)
    assert {name: each[0] for name, each in found.items()} == {"mute": "kept", "say": "refused", "fix": "kept"}
    assert "'result' is only observed; executed is required" in found["say"][1][0]
    found = asked(root, capsys, {"refuse": ["accepted"]}, code=1)
    assert found["mute"] == ("refused", ["ada took refused work as it was"])
    found = asked(root, capsys, {"red_first": "required", "required_checks": ["run"]}, "--plan", "p", code=1)
    assert found["fix"] == ("refused", ["the check 'there' was not seen to fail before the work"])
    assert "mute" not in found
    assert asked(root, capsys, {"refuse": ["not_isolated"]}, "--plan", "p", code=1)["fix"][0] == "refused"
    assert set(asked(root, capsys, {"approvals": 1}, "--since", "2026-03-05", code=1)) == {"mute"}
    assert exported(root, capsys) == before


def test_people_are_told_line_by_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "policy.yaml").write_text("refuse: [accepted]\nmax_age_days: 100000\n")
    assert call(["audit", "replay", "--policy", str(root / "policy.yaml"), "--root", str(root)]) == 1
    said = capsys.readouterr().out
    assert "✗ q/mute would be refused" in said
    assert "    · ada took refused work as it was" in said
    assert said.endswith("2 kept, 1 would be refused, 0 unknown\n")
    (root / "policy.yaml").write_text("min_turst: executed\n")
    assert call(["audit", "replay", "--policy", str(root / "policy.yaml"), "--root", str(root)]) == 2
    assert "did you mean 'min_trust'?" in capsys.readouterr().err
    (root / "policy.yaml").write_text("approvals: 1\n")
    wrong = ["audit", "replay", "--policy", str(root / "policy.yaml"), "--since", "soon", "--root", str(root)]
    assert call(wrong) == 2


def test_a_long_past_is_judged_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_replay, "PAGE", 7)
    monkeypatch.setattr(policy_replay, "_WINDOW", 5)

    async def use(engine: Engine) -> None:
        await engine.submit(plan(*(task(f"t{number}") for number in range(30))))
        assert (await engine.ended()).result == "done"
        seen: list[str] = []
        following: dict[str, Any] | None = {}
        policy = policy_of({"min_trust": "observed"})
        while following is not None:
            page = await policy_replay.replay_page(engine.deps, ReplayQuery(policy, **following))
            assert len(page["dones"]) <= 7
            assert page["totals"] == {"kept": len(page["dones"]), "refused": 0, "unknown": 0}
            assert all(each["stands"] for each in page["dones"])
            seen += [each["task_id"] for each in page["dones"]]
            following = dict(page["next"]) if page["next"] else None
        assert sorted(seen) == sorted(f"t{number}" for number in range(30))

    play(tmp_path, use)
