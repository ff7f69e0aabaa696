"""Where things lie under a root."""

from __future__ import annotations

import pytest

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import root_layout


def test_an_agent_has_its_places() -> None:
    assert root_layout.agent_folder("dev") == "agents/dev"
    assert root_layout.box_folder("dev", "inbox", "shop") == "agents/dev/inbox/shop"
    assert root_layout.inputs_folder("dev", "shop") == "agents/dev/workspace/shop/inputs"
    assert root_layout.plan_folder("shop") == "system_runtime/plans/shop"
    assert root_layout.ack_name("msg_1") == "ack_msg_1.json"


def test_a_task_that_is_called_inputs_lies_beside_the_inputs() -> None:
    assert root_layout.task_folder("dev", "shop", "build") == "agents/dev/workspace/shop/build"
    assert root_layout.task_folder("dev", "shop", "inputs") != root_layout.inputs_folder("dev", "shop")


def test_a_copy_of_a_claimed_message_is_numbered_and_its_name_does_not_grow() -> None:
    claimed = root_layout.claimed_name("msg_1", "cmd.msg.json")
    assert claimed == "msg_1__cmd.msg.json"
    assert root_layout.claimed_name("msg_1", claimed) == claimed
    assert root_layout.claimed_name("msg_1", claimed, 2) == f"{claimed}__dup_2"


def test_the_file_of_an_artifact_is_a_name_that_a_folder_can_hold() -> None:
    assert root_layout.artifact_name("build", "app.zip", "msg_1") == "artifact_build_app.zip_msg_1.msg.json"
    long = root_layout.artifact_name("build", "…" * 300, "msg_1")
    assert len(long) <= 255
    assert long.endswith("_msg_1.msg.json")
    assert not long.startswith(".")


def test_an_agent_gets_the_best_sandbox_and_needs_one_if_it_names_it() -> None:
    least = {"schema_version": "1.0", "agent_id": "dev", "driver": "script", "argv": ["true"]}
    assert (AgentProfile.from_json(least).tier, AgentProfile.from_json(least).isolated_only) == ("best", False)
    assert AgentProfile.from_json(least).model == ""
    assert AgentProfile.from_json({**least, "driver": "cli", "cli": {"agent": "claude", "model": "m"}}).model == "m"
    assert AgentProfile.from_json({**least, "driver": "cli", "cli": {"agent": "claude"}}).model == ""
    ways = {"script": "file", "cli": "message", "local": "answer"}
    shown = {
        driver: AgentProfile.model_construct(agent_id=AgentProfile.from_json(least).agent_id, driver=driver).result_by
        for driver in ways
    }
    assert shown == ways
    assert AgentProfile.from_json({**least, "sandbox": "bubblewrap"}).isolated_only
    assert AgentProfile.from_json({**least, "isolation": "required"}).isolated_only
    assert not AgentProfile.from_json({**least, "sandbox": "bubblewrap", "isolation": "best"}).isolated_only


@pytest.mark.parametrize(
    ("more", "elsewhere", "performer"),
    [({}, False, "script"), ({"pool": "gpu"}, True, "remote"), ({"driver": "remote", "argv": None}, True, "remote")],
)
def test_an_agent_of_a_pool_works_elsewhere_as_a_remote_one(
    more: dict[str, str | None], performer: str, *, elsewhere: bool
) -> None:
    least = {"schema_version": "1.0", "agent_id": "dev", "driver": "script", "argv": ["true"]}
    document = {key: value for key, value in (least | more).items() if value is not None}
    profile = AgentProfile.from_json(document)
    assert (profile.is_elsewhere, profile.performer) == (elsewhere, performer)
