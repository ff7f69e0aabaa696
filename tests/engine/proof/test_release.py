"""Releases: the engine decides, by its own checks and by trusted validators; whatever else is said is a claim."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import UsageError
from agenttalk.contracts.validation import DecisionRecord, ReleaseManifest
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.messages import published_files
from agenttalk.engine.plans import releases
from agenttalk.engine.plans.releases import Release
from agenttalk.engine.proof import release as proof_release
from agenttalk.ports.statements.core import FACTS_OF, LATEST_FACT
from kits.plankit import Engine, plan, play, proved, states, task
from kits.provekit import git, repository
from kits.standingkit import PlanStanding, read_standing

APP = {"name": "app.txt", "deliverable": True, "deliver_to": ["tester"]}
BUILD = {"build": {"kind": "run", "run": "grep -q hello app.txt"}}
GATE = "security_gate_result.json"


def gate_result(sha256: str, **keys: Any) -> str:
    body = {"schema_version": "1.0", "gate": "security", "decision": "PASS", "subject": {"sha256": sha256}}
    return json.dumps({**body, "produced_by": "tester", **keys})


def says(text: str = "hello") -> Any:
    """A maker."""

    async def make(turn: Turn) -> str:
        turn.outputs["app.txt"] = text
        return "made, PASS, released"

    return make


def judges(**keys: Any) -> Any:
    """A validator that looks at what it is given."""

    async def judge(turn: Turn) -> str:
        [data] = turn.inputs["app"].values()
        turn.outputs[GATE] = gate_result(keys.pop("sha256", wire.sha256(data)), **keys)
        return "looked"

    return judge


def scanned(**keys: Any) -> dict[str, Any]:
    inputs = [{"name": "app", "from": "app.txt"}]
    return task("scan", "tester", inputs=inputs, outputs=[{"name": GATE}]) | keys


def shipping(*more: dict[str, Any], **release: Any) -> Any:
    return plan(task("make", outputs=[APP]), *more, agents={"tester": {"driver": "python"}}, release=release)


async def decided(engine: Engine, plan_id: str = "p") -> Release:
    store = await board_of(engine.deps, plan_id)
    found = await releases.read_latest_committed(store, plan_id)
    assert found is not None
    return found


def shipped(root: Path, compiled: Any, **agents: Any) -> tuple[PlanStanding, Release]:
    async def use(engine: Engine) -> tuple[PlanStanding, Release]:
        await engine.submit(compiled)
        found = await engine.ended()
        store = await board_of(engine.deps, "p")
        await published_files.publish(engine.deps, store)
        return found, await decided(engine)

    result: tuple[PlanStanding, Release] = play(root, use, proving=True, **agents)
    return result


@pytest.mark.shows("V10", "V12")
def test_what_passes_every_gate_is_approved_and_archived(tmp_path: Path) -> None:
    compiled = shipping(scanned(), gates={**BUILD, "security": {"validator": "tester"}})
    found, release = shipped(tmp_path, compiled, a=says(), tester=judges())
    assert (found.result, release.state, release.as_json()["reasons"]) == ("done", "approved", [])
    archive = tmp_path / "system_runtime/artifacts/p" / release.release_id
    assert (archive / "make/app.txt/app.txt").read_text() == "hello"
    manifest = ReleaseManifest.from_bytes((tmp_path / "system_runtime/plans/p/release_manifest.json").read_bytes())
    assert manifest.decision == "APPROVE"
    assert [(each.name, each.sha256) for each in manifest.artifacts] == [("app.txt", wire.sha256(b"hello"))]
    assert {each.name for each in manifest.evidence_refs} == set(manifest.evidence_required) == {"build", "security"}
    record = DecisionRecord.from_bytes((archive / "decision_record.json").read_bytes())
    assert (record.decision_type, record.decision, record.decided_by_agent_id) == ("RELEASE", "APPROVE", "engine")


REJECTED = ("failed", "rejected")


def refused(root: Path, compiled: Any, *words: str, **agents: Any) -> Release:
    """A release that is rejected for reasons that hold these words, each in one of its own."""
    found, release = shipped(root, compiled, **agents)
    told = release.as_json()
    assert (found.result, release.state, told["decision"]) == (*REJECTED, "REJECT"), told
    reasons = told["reasons"]
    for word in words:
        assert any(word in reason for reason in reasons), (word, reasons)
    assert len(reasons) == len(words), reasons
    assert not list((root / "system_runtime/artifacts/p" / release.release_id).glob("make*"))
    alerts = list((root / "system_runtime/alerts/p").glob("*.json"))
    assert "RELEASE_REJECTED" in {json.loads(each.read_text())["type"] for each in alerts}
    return release


@pytest.mark.shows("V11")
def test_a_check_that_fails_and_a_result_that_is_missing_are_both_told(tmp_path: Path) -> None:
    quiet = scanned(outputs=[{"name": GATE, "optional": True}])

    async def silent(_: Turn) -> str:
        return "security: PASS"

    compiled = shipping(quiet, gates={**BUILD, "security": {"validator": "tester"}})
    refused(tmp_path, compiled, "'build' says REJECT", "'security' has no result", a=says("bye"), tester=silent)


@pytest.mark.shows("V11")
def test_a_validator_that_says_reject_rejects(tmp_path: Path) -> None:
    compiled = shipping(scanned(), gates={"security": {"validator": "tester"}})
    refused(tmp_path, compiled, "'security' says REJECT", a=says(), tester=judges(decision="REJECT"))


@pytest.mark.shows("V12")
def test_a_result_for_another_hash_does_not_count(tmp_path: Path) -> None:
    compiled = shipping(scanned(), gates={"security": {"validator": "tester"}})
    forged = judges(sha256=wire.sha256(b"something else"))
    refused(tmp_path, compiled, "about something else", a=says(), tester=forged)


def test_a_result_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    async def odd(turn: Turn) -> str:
        turn.outputs[GATE] = '{"decision": "PASS"}'
        return "ok"

    compiled = shipping(scanned(), gates={"security": {"validator": "tester"}})
    refused(tmp_path, compiled, "cannot be read", "has no result", a=says(), tester=odd)


def test_a_result_of_somebody_else_does_not_count(tmp_path: Path) -> None:
    """The right document from an agent that nobody trusts with it, beside a validator that says nothing."""
    quiet = scanned(outputs=[{"name": GATE, "optional": True}])
    inputs = [{"name": "app", "from": "app.txt"}]
    helper = task("help", "helper", inputs=inputs, outputs=[{"name": GATE}])
    app = {**APP, "deliver_to": ["tester", "helper"]}

    async def silent(_: Turn) -> str:
        return "nothing"

    agents = {"tester": {"driver": "python"}, "helper": {"driver": "python"}}
    gates = {"security": {"validator": "tester"}}
    compiled = plan(task("make", outputs=[app]), quiet, helper, agents=agents, release={"gates": gates})
    words = ("a result of helper does not count", "has no result for")
    refused(tmp_path, compiled, *words, a=says(), tester=silent, helper=judges(produced_by="helper"))


def test_the_makers_own_result_does_not_count(tmp_path: Path) -> None:
    """Whoever makes it also delivers a perfect result, signed with the validator's name."""

    async def cheat(turn: Turn) -> str:
        turn.outputs["app.txt"] = "hello"
        turn.outputs[GATE] = gate_result(wire.sha256(b"hello"))
        return "all gates pass"

    async def silent(_: Turn) -> str:
        return "nothing"

    outputs = [APP, {"name": GATE, "deliver_to": ["tester"]}]
    quiet = scanned(outputs=[{"name": GATE, "optional": True}])
    gates = {"security": {"validator": "tester"}}
    compiled = plan(
        task("make", outputs=outputs), quiet, agents={"tester": {"driver": "python"}}, release={"gates": gates}
    )
    refused(tmp_path, compiled, "says that tester made it", "has no result", a=cheat, tester=silent)


def test_without_gates_a_deliverable_that_failed_is_not_shipped(tmp_path: Path) -> None:
    async def broken(_: Turn) -> str:
        raise ValueError("no")

    more = task("other", "b", outputs=[{"name": "other.txt", "deliverable": True}])
    compiled = plan(task("make", outputs=[{**APP, "deliver_to": []}]), more, release={})
    refused(tmp_path, compiled, "'other.txt' is not there: task other is FAILED", a=says(), b=broken)


def test_what_a_consumer_refused_for_good_is_not_shipped(tmp_path: Path) -> None:
    validated = task(
        "use",
        "tester",
        inputs=[{"name": "app", "from": "app.txt"}],
        validate={"app": {"format": "json"}},
        on_dependency_failed="SKIP",
    )
    compiled = shipping(validated)
    refused(tmp_path, compiled, "'app.txt' is not there: task make is FAILED", "nothing is shipped", a=says())


def test_a_gate_that_takes_too_long_does_not_pass(tmp_path: Path) -> None:
    gates = {"build": {"kind": "run", "run": "sleep 600"}}
    limits = {"timeouts": {"release_gate": {"timeout_seconds": 1}}}
    compiled = plan(task("make", outputs=[{**APP, "deliver_to": []}]), release={"gates": gates}, policies=limits)
    refused(tmp_path, compiled, "took more than 1 seconds", "'build' has no result", a=says())


def test_without_somebody_to_make_checks_nothing_is_approved(tmp_path: Path) -> None:
    async def use(engine: Engine) -> dict[str, Any]:
        await engine.submit(plan(task("make", outputs=[{**APP, "deliver_to": []}]), release={"gates": BUILD}))
        await engine.ended()
        return dict((await decided(engine)).as_json())

    told = play(tmp_path, use, a=says())
    assert told["state"] == "rejected"
    assert told["reasons"] == ["checks are not supported here", "gate 'build' has no result"]


async def _again(engine: Engine) -> None:
    await engine.dispatcher.operator.release("p", by="ada")


def test_the_same_is_decided_once_and_anew_when_somebody_asks(tmp_path: Path) -> None:
    """An engine that starts again decides nothing; an operator can have it decided anew."""
    compiled = plan(task("make", outputs=[{**APP, "deliver_to": []}]), release={"gates": BUILD})

    async def first(engine: Engine) -> Release:
        await engine.submit(compiled)
        await engine.ended()
        store = await board_of(engine.deps, "p")
        await proof_release.decide_release(
            engine.deps, store, "p", proved(tmp_path, engine.deps, ScriptDriver(LocalProcesses()))
        )
        return await decided(engine)

    async def then(engine: Engine) -> list[Release]:
        await engine.submit(compiled)
        await engine.ended()
        before = await decided(engine)
        await _again(engine)
        return [before, await decided(engine)]

    one = play(tmp_path, first, proving=True, a=says())
    same, other = play(tmp_path, then, proving=True, a=says())
    assert (one.number, same) == (1, one)
    assert (other.number, other.state, other.release_id == one.release_id) == (2, "approved", False)


def test_a_release_is_revoked_when_its_work_is_done_again_and_released_anew(tmp_path: Path) -> None:
    texts = ["hello one", "hello two"]

    async def make(turn: Turn) -> str:
        turn.outputs["app.txt"] = texts.pop(0)
        return "ok"

    async def use(engine: Engine) -> tuple[list[Release], Any]:
        await engine.submit(plan(task("make", outputs=[{**APP, "deliver_to": []}]), release={"gates": BUILD}))
        await engine.ended()
        before = await decided(engine)
        store = await board_of(engine.deps, "p")
        await engine.dispatcher.operator.retry("p", "make", by="ada", onwards=True)
        rows = await store.read(LATEST_FACT, subject="p", kind="release.revoked")
        await engine.until(lambda found: found.result == "done")
        await published_files.publish(engine.deps, store)
        return [before, await decided(engine)], json.loads(bytes(rows[0][2]))

    [before, after], revoked = play(tmp_path, use, proving=True, a=make)
    assert revoked["release_id"] == before.release_id
    folder = tmp_path / "system_runtime/artifacts/p"
    old, new = (
        json.loads((folder / each.release_id / "release_manifest.json").read_text()) for each in (before, after)
    )
    assert (old["decision"], new["decision"]) == ("REJECT", "APPROVE")
    assert "done again" in old["reasons"][0]
    assert (folder / after.release_id / "make/app.txt/app.txt").read_text() == "hello two"
    assert json.loads((tmp_path / "system_runtime/plans/p/release_manifest.json").read_text()) == new


def test_a_manifest_and_a_decision_from_an_outbox_are_claims(tmp_path: Path) -> None:
    """An agent may write that it is released, under any name; the engine's decision is another matter."""
    compiled = plan(task("make", outputs=[{**APP, "deliver_to": []}]), release={"gates": BUILD})

    async def use(engine: Engine) -> Release:
        await engine.submit(compiled)
        await engine.ended()
        before = await decided(engine)
        forged = {"schema_version": "1.0", "plan_id": "p", "release_id": before.release_id, "decision": "APPROVE"}
        manifest = {**forged, "artifacts": [], "evidence_required": [], "evidence_refs": []}
        subject = {"kind": "release", "ref_sha256": wire.sha256(b"x")}
        record = {"schema_version": "1.0", "decision_id": before.release_id, "decision_type": "RELEASE"}
        outbox = tmp_path / "agents/a/outbox/p"
        outbox.mkdir(parents=True)
        (outbox / f"release_manifest_{before.release_id}.json").write_text(json.dumps(manifest))
        (outbox / "release_manifest.json").write_text(json.dumps(manifest))
        by = {"decision": "APPROVE", "decided_by_agent_id": "a", "subject": subject}
        (outbox / f"decision_record_{before.release_id}.json").write_text(json.dumps({**record, **by}))
        await engine.route()
        await published_files.republish(engine.deps, await board_of(engine.deps, "p"))
        assert (await read_standing(engine.deps, "p")).result == "failed"
        return before

    release = play(tmp_path, use, proving=True, a=says("bye"))
    runtime = tmp_path / "system_runtime"
    for path in (runtime / "plans/p", runtime / "artifacts/p" / release.release_id):
        assert json.loads((path / "release_manifest.json").read_text())["decision"] == "REJECT"
    decision = json.loads((runtime / f"plans/p/decided/{release.release_id}.json").read_text())
    assert (decision["decision"], decision["decided_by_agent_id"]) == ("REJECT", "engine")


FIX = "pathlib.Path('calc.py').write_text('print(2)\\n')"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a program."""
    return repository(tmp_path / "repo", {"calc.py": "print(1)\n"})


def program(root: Path, name: str, text: str) -> dict[str, Any]:
    """A script agent."""
    path = root / f"{name}.py"
    path.write_text(f"import os, pathlib\nout = pathlib.Path(os.environ['AGENTTALK_OUTPUTS'])\n{text}\nprint('done')\n")
    return {"driver": "script", "argv": [sys.executable, str(path)]}


def coded(repo: Path, *more: dict[str, Any], gates: dict[str, Any]) -> Any:
    make = task("make", "dev", workspace="repo", outputs=[{**APP, "deliver_to": ["tester"]}])
    agents = {
        "dev": program(repo.parent, "dev", f"{FIX}\n(out / 'app.txt').write_text('hello')"),
        "late": program(repo.parent, "late", "pathlib.Path('more.py').write_text('x = 1\\n')"),
        "tester": {"driver": "python"},
    }
    return plan(make, *more, agents=agents, workspace={"repo": str(repo)}, release={"gates": gates})


def test_a_check_at_the_tip_sees_what_was_merged(repo: Path) -> None:
    gates = {
        "build": {"kind": "run", "run": f'test "$({sys.executable} calc.py)" = 2'},
        "smoke": {"kind": "file", "path": "app.txt", "contains": "hello", "on": "artifacts"},
    }
    found, release = shipped(repo.parent / "root", coded(repo, gates=gates))
    told = release.as_json()
    assert (found.result, told["reasons"]) == ("done", [])
    assert told["commit"] == git(repo, "rev-parse", "agenttalk/p")


@pytest.mark.shows("V12")
def test_a_result_from_before_a_later_merge_is_stale(repo: Path) -> None:
    late = task("late", "late", needs=["scan"], workspace="repo")
    compiled = coded(repo, scanned(), late, gates={"security": {"validator": "tester"}})
    refused(repo.parent / "root", compiled, "'security' is stale", tester=judges())


def test_a_result_that_saw_every_merge_counts(repo: Path) -> None:
    late = task("late", "late", needs=["make"], workspace="repo")
    compiled = coded(repo, scanned(needs=["late"]), late, gates={"security": {"validator": "tester"}})
    found, release = shipped(repo.parent / "root", compiled, tester=judges())
    assert (found.result, release.state) == ("done", "approved")


def validation(turn: Turn, decision: str, **keys: Any) -> str:
    [data] = turn.inputs["app"].values()
    subject = {"producer_agent_id": "a", "task_id": "make", "artifact_name": "app.txt"}
    body = {
        "schema_version": "1.0",
        "validation_id": "v1",
        "validator_agent_id": "tester",
        "validated_at": "2026-01-01T00:00:00Z",
        "subject": {**subject, "artifact_sha256": wire.sha256(data)},
        "decision": decision,
    }
    return json.dumps({**body, **keys})


def validated(*more: dict[str, Any], **keys: Any) -> Any:
    outputs = [{"name": "artifact_validation_result.json"}]
    check = task("check", "tester", inputs=[{"name": "app", "from": "app.txt"}], outputs=outputs)
    return plan(task("make", outputs=[APP]), check, *more, agents={"tester": {"driver": "python"}}, **keys)


def validates(decision: str, **keys: Any) -> Any:
    async def judge(turn: Turn) -> str:
        turn.outputs["artifact_validation_result.json"] = validation(turn, decision, **keys)
        return "looked"

    return judge


ARCHIVED = "system_runtime/artifacts/p/make/app.txt/app.txt"


@pytest.mark.shows("V09")
def test_what_a_validator_passes_is_archived_and_shipped(tmp_path: Path) -> None:
    compiled = validated(release={"accepted_by": ["tester"]})
    found, release = shipped(tmp_path, compiled, a=says(), tester=validates("PASS"))
    assert (found.result, release.state) == ("done", "approved")
    assert (tmp_path / ARCHIVED).read_text() == "hello"


@pytest.mark.shows("V09")
def test_what_a_validator_rejects_is_neither_archived_nor_shipped(tmp_path: Path) -> None:
    compiled = validated(release={"accepted_by": ["tester"]})
    words = ("'app.txt' was refused by tester", "'app.txt' is not accepted by tester")
    refused(tmp_path, compiled, *words, a=says(), tester=validates("REJECT"))
    assert not (tmp_path / ARCHIVED).exists()


@pytest.mark.shows("V09")
def test_a_rejection_takes_what_was_archived_away(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(validated())
        await engine.ended()
        await published_files.publish(engine.deps, await board_of(engine.deps, "p"))

    play(tmp_path, use, a=says(), tester=validates("REJECT"))
    assert not (tmp_path / ARCHIVED).exists()
    assert not list((tmp_path / "system_runtime/artifacts").rglob("app.txt/*"))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"validator_agent_id": "a"}, "speaks for a"),
        ({"validated_at": "then"}, "validated_at"),
        (
            {
                "subject": {
                    "producer_agent_id": "a",
                    "task_id": "make",
                    "artifact_name": "app.txt",
                    "artifact_sha256": wire.sha256(b"x"),
                }
            },
            "another one",
        ),
    ],
)
def test_a_validation_that_does_not_fit_counts_for_nothing(tmp_path: Path, said: dict[str, Any], why: str) -> None:
    async def use(engine: Engine) -> Any:
        await engine.submit(validated(release={"accepted_by": ["tester"]}))
        await engine.ended()
        store = await board_of(engine.deps, "p")
        rows = await store.read(LATEST_FACT, subject="p/check", kind="artifact.validated")
        return json.loads(bytes(rows[0][2])), (await decided(engine)).as_json()["reasons"]

    told, reasons = play(tmp_path, use, proving=True, a=says(), tester=validates("PASS", **said))
    assert (told["counts"], why in told["why"]) == (False, True), told
    assert reasons == ["deliverable 'app.txt' is not accepted by tester"]


def test_a_later_task_can_ask_whether_an_output_was_accepted(tmp_path: Path) -> None:
    """By a validator, or by whoever used it and looked at it before."""

    def wanting(who: str) -> dict[str, Any]:
        check = {"id": "accepted", "kind": "artifact", "output": "app.txt", "accepted_by": who}
        criterion = {"id": "c", "description": "somebody looked", "evidenceRequired": ["accepted"]}
        promise = {"objective": "ship", "acceptance": [criterion], "checks": [check]}
        return task(f"ship_{who}", "b", needs=["check", "use"], promise=promise, max_reexecute_times=0)

    use = task(
        "use", "user", inputs=[{"name": "app", "from": "app.txt"}], validate={"app": {"format": "text"}}
    )  # which a machine can tell
    compiled = validated(use, wanting("tester"), wanting("user"), wanting("b"))

    async def run(engine: Engine) -> dict[str, str]:
        await engine.submit(compiled)
        return states(await engine.ended())

    found = play(tmp_path, run, proving=True, a=says(), tester=validates("PASS"))
    assert {name: found[f"ship_{name}"] for name in ("tester", "user", "b")} == {
        "tester": "COMPLETED",
        "user": "COMPLETED",
        "b": "FAILED",
    }


def test_two_deliverables_need_a_result_for_each(tmp_path: Path) -> None:
    """A result is about one artifact; the engine's own checks are about all of them."""
    outputs = [APP, {"name": "notes.txt", "deliverable": True}]

    async def both(turn: Turn) -> str:
        turn.outputs |= {"app.txt": "hello", "notes.txt": "read me"}
        return "ok"

    gates = {**BUILD, "security": {"validator": "tester"}}
    agents = {"tester": {"driver": "python"}}
    compiled = plan(task("make", outputs=outputs), scanned(), agents=agents, release={"gates": gates})
    refused(tmp_path, compiled, "'security' has no result for 'notes.txt'", a=both, tester=judges())


def test_a_revoked_release_stays_revoked_until_it_is_decided_anew(tmp_path: Path) -> None:
    compiled = plan(task("make", outputs=[{**APP, "deliver_to": []}]), release={"gates": BUILD})

    async def use(engine: Engine) -> None:
        await engine.submit(compiled)
        await engine.ended()
        store = await board_of(engine.deps, "p")
        at = engine.deps.stamp()
        assert await store.transact(lambda tx: releases.revoke(tx, "p", "a check turned red", at=at))
        assert not await store.transact(lambda tx: releases.revoke(tx, "p", "once more", at=at))
        found = await read_standing(engine.deps, "p")
        assert (found.result, found.release and found.release["state"]) == ("failed", "revoked")
        assert (await decided(engine)).as_json()["reasons"] == ["revoked: a check turned red"]
        await engine.dispatcher.operator.release("p", by="ada")
        assert (await read_standing(engine.deps, "p")).result == "done"

    play(tmp_path, use, proving=True, a=says())


def test_a_rejection_revokes_the_approval_before_it(tmp_path: Path) -> None:
    """The same work, and a gate that no longer passes."""
    flag = tmp_path / "red"
    gates = {"build": {"kind": "run", "run": f"test ! -e {flag}"}}
    compiled = plan(task("make", outputs=[{**APP, "deliver_to": []}]), release={"gates": gates})

    async def use(engine: Engine) -> tuple[Release, Release]:
        await engine.submit(compiled)
        await engine.ended()
        before = await decided(engine)
        flag.touch()
        await engine.dispatcher.operator.release("p", by="ada")
        await published_files.publish(engine.deps, await board_of(engine.deps, "p"))
        return before, await decided(engine)

    before, after = play(tmp_path / "root", use, proving=True, a=says())
    assert (before.state, after.state) == ("approved", "rejected")
    folder = tmp_path / "root/system_runtime/artifacts/p" / before.release_id
    assert json.loads((folder / "release_manifest.json").read_text())["decision"] == "REJECT"


def test_a_new_revision_revokes_and_releases_anew(tmp_path: Path) -> None:
    made = task("make", outputs=[{**APP, "deliver_to": []}])

    async def use(engine: Engine) -> list[str]:
        await engine.submit(plan(made, release={"gates": BUILD}))
        await engine.ended()
        before = await decided(engine)
        new = plan(made, task("more", "b"), release={"gates": BUILD})
        await engine.dispatcher.operator.apply(new.dag, new.manifest, new.profiles, by="ada")
        await engine.until(lambda found: found.result == "done")
        after = await decided(engine)
        with pytest.raises(UsageError, match="has no release"):
            await releases.require_release(engine.deps, "nothing")
        return [before.state, after.state, str(after.number)]

    assert play(tmp_path, use, proving=True, a=says()) == ["approved", "approved", "2"]


def test_nothing_is_decided_while_tasks_are_open_or_nothing_is_shipped(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("one", "b"), plan_id="plain"))
        await engine.submit(plan(task("make", outputs=[{**APP, "deliver_to": []}]), release={}))
        await engine.dispatcher.operator.pause("p", by="ada")
        await engine.ended("plain")
        store = await board_of(engine.deps, "p")
        assert await proof_release.decide_release(engine.deps, store, "plain", None) is None
        assert await proof_release.decide_release(engine.deps, store, "p", None) is None
        for plan_id, why in (("plain", "ships nothing"), ("p", "has not ended")):
            with pytest.raises(UsageError, match=why):
                await engine.dispatcher.operator.release(plan_id, by="ada")
        await engine.dispatcher.operator.cancel("p", by="ada")
        assert (await read_standing(engine.deps, "p")).release is None

    async def endless(_: Turn) -> str:  # else it may have ended before it is paused
        await asyncio.Event().wait()
        return "never"

    play(tmp_path, use, proving=True, a=endless)


def test_what_changes_while_gates_are_looked_at_is_not_shipped_unseen(tmp_path: Path) -> None:
    """The work is done again in the middle of it: only what came of that is decided on."""
    texts = ["hello one", "hello two"]
    began, again = tmp_path / "began", tmp_path / "again"
    looks = f"touch {began}; while [ ! -e {again} ]; do sleep 0.01; done; grep -q hello app.txt"
    gates = {"build": {"kind": "run", "run": looks}}

    async def make(turn: Turn) -> str:
        turn.outputs["app.txt"] = texts.pop(0)
        return "ok"

    async def use(engine: Engine) -> tuple[list[str], Release]:
        await engine.submit(plan(task("make", outputs=[{**APP, "deliver_to": []}]), release={"gates": gates}))
        async with asyncio.timeout(300):
            while not began.exists():  # noqa: ASYNC110 - a program tells in no other way
                await asyncio.sleep(0.01)
        await engine.dispatcher.operator.retry("p", "make", by="ada", onwards=True)
        again.touch()
        await engine.until(lambda found: found.result == "done")
        store = await board_of(engine.deps, "p")
        facts = await store.read(FACTS_OF, subject="p", after=0, limit=100)
        return [row[2] for row in facts if "release" in str(row[2])], await decided(engine)

    facts, release = play(tmp_path / "root", use, proving=True, a=make)
    assert facts == ["release.decided"]
    assert [each["sha256"] for each in release.as_json()["artifacts"]] == [wire.sha256(b"hello two")]


PROMISE = {
    "objective": "It adds",
    "acceptance": [{"id": "c", "description": "two", "evidenceRequired": ["two"]}],
    "checks": [{"id": "two", "kind": "run", "run": f'test "$({sys.executable} calc.py)" = 2', "covers": ["calc.py"]}],
}


@pytest.mark.rest
def test_a_release_whose_evidence_broke_is_revoked_and_given_anew_when_it_is_mended(repo: Path) -> None:
    """Somebody changes the plan's branch behind its back; the release falls, the work is mended, and it is released."""
    make = task("make", "dev", workspace="repo", outputs=[{**APP, "deliver_to": []}], promise=PROMISE)
    agents = {"dev": program(repo.parent, "dev", f"{FIX}\n(out / 'app.txt').write_text('hello')")}
    gates = {"smoke": {"kind": "file", "path": "app.txt", "contains": "hello", "on": "artifacts"}}
    compiled = plan(make, agents=agents, workspace={"repo": str(repo)}, release={"gates": gates})

    async def use(engine: Engine) -> tuple[Release, Release, dict[str, Any]]:
        await engine.submit(compiled)
        await engine.ended()
        before = await decided(engine)
        git(repo, "checkout", "-q", "agenttalk/p")
        (repo / "calc.py").write_text("print(3)\n")
        git(repo, "commit", "-q", "-am", "behind its back")
        git(repo, "checkout", "-q", "main")
        await engine.dispatcher.operator.verify("p")
        store = await board_of(engine.deps, "p")
        rows = await store.read(LATEST_FACT, subject="p", kind="release.revoked")
        await engine.until(lambda found: found.result == "done")
        return before, await decided(engine), json.loads(bytes(rows[0][2]))

    before, after, revoked = play(repo.parent / "root", use, proving=True)
    assert (before.state, after.state, after.number) == ("approved", "approved", 2)
    assert (revoked["release_id"], "two" in revoked["why"]) == (before.release_id, True)
