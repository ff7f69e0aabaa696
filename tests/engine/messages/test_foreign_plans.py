"""Plans whose files were found lying there: those files decide, and only what contradicts itself stops."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agenttalk.contracts.errors import UsageError
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.messages import plan_registry
from agenttalk.engine.messages.router import Router
from agenttalk.ports.statements.messages import PLAN
from kits.routerkit import Route, alerts, asked, counts, inside, routed, sound, statuses
from kits.treekit import Tree, dumped, node, output, sha256

OTHER = [node("build", "dev", outputs=[output("app.zip", "tester")]), node("test", "tester")]


def halted(tree: Tree, plan_id: str = "plan_shop") -> str | None:
    why: str | None = asked(tree.root, PLAN, plan_id=plan_id)[0][4]
    return why


def pointer(tree: Tree, **fields: Any) -> None:
    path = tree.plan_folder() / "active_dag_ref.json"
    path.write_bytes(dumped({**json.loads(path.read_bytes()), **fields}))


def without_pointer(tree: Tree) -> None:
    (tree.plan_folder() / "active_dag_ref.json").unlink()


def half_switched(tree: Tree) -> None:
    path = tree.plan_folder() / "task_dag.json"
    path.write_bytes(dumped({"schema_version": "1.1", "plan_id": "plan_shop", "nodes": OTHER}))


def broken_dag(tree: Tree) -> None:
    (tree.plan_folder() / "task_dag.json").write_bytes(b"{")


def of_another_plan(tree: Tree) -> None:
    data = dumped({"schema_version": "1.1", "plan_id": "plan_other", "nodes": OTHER})
    (tree.plan_folder() / "task_dag.json").write_bytes(data)
    pointer(tree, task_dag_sha256=sha256(data))


def of_the_future(tree: Tree) -> None:
    data = dumped({"schema_version": "9.0", "plan_id": "plan_shop", "nodes": OTHER})
    (tree.plan_folder() / "task_dag.json").write_bytes(data)
    pointer(tree, task_dag_sha256=sha256(data))


def linked_dag(tree: Tree) -> None:
    path = tree.plan_folder() / "task_dag.json"
    path.rename(tree.root / "elsewhere.json")
    path.symlink_to(tree.root / "elsewhere.json")


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (without_pointer, "ACTIVE_DAG_REF_MISMATCH"),
        (half_switched, "ACTIVE_DAG_REF_MISMATCH"),
        (broken_dag, "SCHEMA_INVALID"),
        (lambda tree: pointer(tree, task_dag_sha256=sha256(b"")), "ACTIVE_DAG_REF_MISMATCH"),
        (of_another_plan, "PLAN_MISMATCH"),
        (of_the_future, "SCHEMA_VERSION_UNSUPPORTED"),
        (linked_dag, "ACTIVE_DAG_REF_MISMATCH"),
    ],
    ids=["no pointer", "half", "broken", "pointer", "other plan", "future", "link"],
)
def test_a_plan_that_contradicts_itself_stops_alone_and_goes_on_when_it_is_repaired(
    tree: Tree, route: Route, damage: Any, code: str
) -> None:
    tree.dag([node("build", "dev")], plan_id="plan_fine")
    folder = tree.plan_folder()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    damage(tree)
    damaged = {path.name: path.read_bytes() for path in folder.iterdir()}
    tree.command("lead", "build")
    tree.command("lead", "build", plan_id="plan_fine")
    for _ in range(3):
        report = route()
        assert report.waiting == 1
    assert tree.inbox("dev", "plan_fine") == ["cmd_build_001.msg.json"]
    assert tree.inbox("dev") == []
    assert halted(tree)
    assert len(alerts(tree, code)) == 1
    assert damaged.items() <= {path.name: path.read_bytes() for path in folder.iterdir()}.items()
    for name in ("task_dag.json", "active_dag_ref.json"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_bytes(before[name])
    assert route().delivered == 1
    assert tree.inbox("dev") == ["cmd_build_001.msg.json"]
    assert halted(tree) is None
    assert tree.codes() == []
    assert sound(tree.root)


def test_a_second_halt_is_told_again(tree: Tree, route: Route) -> None:
    path = tree.plan_folder() / "task_dag.json"
    good = path.read_bytes()
    for count in (1, 2):
        path.write_bytes(b"{")
        route()
        route()
        assert len(alerts(tree, "SCHEMA_INVALID")) == count
        path.write_bytes(good)
        route()


def test_what_was_accepted_before_a_halt_waits_for_its_end(tree: Tree, route: Route) -> None:
    inbox = tree.agent("dev") / "inbox"
    inbox.symlink_to(tree.root / "nowhere")
    message_id = tree.command("lead", "build")
    route()
    inbox.unlink()
    good = (tree.plan_folder() / "task_dag.json").read_bytes()
    half_switched(tree)
    assert route().delivered == 0
    assert counts(tree.root) == {"sent": 1, "in_flight": 1}
    (tree.plan_folder() / "task_dag.json").write_bytes(good)
    assert route().delivered == 1
    assert statuses(tree, message_id) == ["DELIVERED"]


@pytest.mark.shows("M13")
def test_a_new_dag_is_in_force_from_the_next_pass_on(tree: Tree) -> None:
    old = tree.dags["plan_shop"]
    tree.command("lead", "build")

    async def use(deps: Deps) -> None:
        router = Router(deps)
        assert (await router.pass_()).delivered == 1
        tree.dag([*OTHER, node("paint", "painter")])
        tree.command("lead", "paint")
        tree.command("lead", "build", 2, dag_ref={"sha256": old})
        report = await router.pass_()
        assert (report.delivered, report.dead) == (1, 1)

    inside(tree.root, use)
    assert tree.inbox("painter") == ["cmd_paint_001.msg.json"]
    assert tree.codes() == ["COMMAND_DAG_MISMATCH"]
    assert not (tree.plan_folder() / "dag_history").exists()  # their files are theirs


def test_numbers_are_compared_within_one_dag(tree: Tree, route: Route) -> None:
    tree.command("lead", "build", 5)
    route()
    tree.dag(OTHER)
    tree.command("lead", "build", 2)
    report = route()
    assert (report.delivered, report.superseded) == (1, 0)


def test_an_agent_that_appears_later_can_be_reached(tree: Tree) -> None:
    tree.dag([node("build", "newcomer")], agents=False)

    async def use(deps: Deps) -> None:
        router = Router(deps)
        tree.command("lead", "build", 1)
        assert (await router.pass_()).dead == 1
        tree.agent("newcomer")
        tree.command("lead", "build", 2)
        assert (await router.pass_()).delivered == 1

    inside(tree.root, use)
    assert tree.codes() == ["TARGET_AGENT_NOT_FOUND"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_plan_whose_dag_is_taken_away_stops_until_it_is_back(tree: Tree, restarted: bool) -> None:
    path = tree.plan_folder() / "task_dag.json"
    good = path.read_bytes()

    async def use(deps: Deps) -> None:
        router = Router(deps)
        await router.pass_()
        path.unlink()
        tree.command("lead", "build")
        router = Router(deps) if restarted else router
        assert ((await router.pass_()).accepted, tree.inbox("dev")) == (0, [])
        path.write_bytes(good)
        assert (await router.pass_()).delivered == 1

    inside(tree.root, use)
    assert len(alerts(tree, "ACTIVE_DAG_REF_MISMATCH")) == 1


def test_files_of_a_foreign_plan_are_never_written_by_submitting(tree: Tree, route: Route) -> None:
    route()
    before = (tree.plan_folder() / "task_dag.json").read_bytes()
    data = dumped({"schema_version": "1.1", "plan_id": "plan_shop", "nodes": OTHER})
    with pytest.raises(UsageError) as refused:
        inside(tree.root, lambda deps: plan_registry.submit(deps, data))
    assert refused.value.code == "PLAN_MISMATCH"
    assert refused.value.hint
    assert (tree.plan_folder() / "task_dag.json").read_bytes() == before


def test_plans_go_on_beside_each_other(tree: Tree, route: Route) -> None:
    for number in range(5):
        tree.dag([node("build", "dev")], plan_id=f"plan_{number}")
        tree.command("lead", "build", plan_id=f"plan_{number}", message_id="m1")
    assert route().delivered == 5
    assert all(counts(tree.root, f"plan_{number}") == {"sent": 1, "delivered": 1} for number in range(5))


def test_a_status_tells_of_every_task(tree: Tree) -> None:
    routed(tree.root)
    status = json.loads((tree.plan_folder() / "plan_status.json").read_bytes())
    assert {each["task_id"]: each["state"] for each in status["tasks"]} == dict.fromkeys(
        ("design", "build", "test"), "PENDING"
    )
    assert status["active_task_dag_sha256"] == tree.dags["plan_shop"]
