"""The folders and files under a root. Their names are a public contract: other programs rely on them."""

from __future__ import annotations

from typing import Final, Literal

from agenttalk.contracts.core.base import is_id

AGENTS: Final = "agents"
RUNTIME: Final = "system_runtime"
PLANS: Final = f"{RUNTIME}/plans"
PROFILE: Final = "agent_profile.json"
HEARTBEAT: Final = "status_heartbeat.json"
GATEWAY: Final = "agent_human_gateway"
"""The agent that stands for a person."""
DAG: Final = "task_dag.json"
POINTER: Final = "active_dag_ref.json"
MANIFEST: Final = "plan_manifest.json"
STATUS: Final = "plan_status.json"
JOURNAL: Final = "deliveries.jsonl"
MESSAGE: Final = ".msg.json"
"""The ending of message files. Other files are never claimed."""
SENT: Final = ".sent"
REJECTED: Final = ".rejected"
PENDING: Final = ".pending"
PROCESSED: Final = ".processed"
DEADLETTER: Final = ".deadletter"
PAYLOAD: Final = "_payload"
HISTORY: Final = ".history"
INPUT_INDEX: Final = "input_index.json"

HIDDEN: Final = ("data", AGENTS, RUNTIME, "workspaces", "agenttalk.toml")
"""Folders that processes of agents and checks cannot see, except for their own working folder and attempt."""

Box = Literal["inbox", "outbox"]


def agent_folder(agent_id: str) -> str:
    """Return an agent's folder, the only one that it may write."""
    return f"{AGENTS}/{agent_id}"


def box_folder(agent_id: str, which: Box, plan_id: str) -> str:
    """Return an agent's inbox or outbox for a plan."""
    return f"{AGENTS}/{agent_id}/{which}/{plan_id}"


def inputs_folder(agent_id: str, plan_id: str) -> str:
    """Return the folder of the artifacts that an agent received."""
    return f"{AGENTS}/{agent_id}/workspace/{plan_id}/inputs"


def task_folder(agent_id: str, plan_id: str, task_id: str) -> str:
    """Return the folder in which an agent works on a task."""
    return f"{AGENTS}/{agent_id}/workspace/{plan_id}/{'inputs%' if task_id == 'inputs' else task_id}"


def plan_folder(plan_id: str) -> str:
    """Return the folder in which a plan's files are published."""
    return f"{PLANS}/{plan_id}"


def claimed_name(message_id: str, name: str, copy: int = 0) -> str:
    """Return the name of a message once it is claimed. A second copy gets a number."""
    name = f"{message_id}__{name}" if not name.startswith(f"{message_id}__") else name
    return f"{name}__dup_{copy}" if copy else name


def ack_name(message_id: str) -> str:
    """Return the file name of a receipt."""
    return f"ack_{message_id}.json"


def path_segment(output_name: str) -> str:
    """Return an output's name as one part of a path: names may have characters that paths may not."""
    if is_id(output_name):
        return output_name
    safe = "".join(
        char if (char.isalnum() and char.isascii()) or char in "-_." else f"%{ord(char):x}%" for char in output_name
    )
    return f"%2e%{safe[1:200]}" if safe.startswith(".") else safe[:200]


def artifact_name(task_id: str, output_name: str, message_id: str) -> str:
    """Return the file name of an artifact's envelope."""
    return f"artifact_{task_id}_{path_segment(output_name)}_{message_id}{MESSAGE}"[-255:].lstrip(".")


def is_safe_payload(path: str) -> bool:
    """Return whether a payload can be directly in an inbox: not a message, a control file or a hidden file."""
    return not path.endswith(MESSAGE) and not any(part.startswith(".") for part in path.split("/"))
