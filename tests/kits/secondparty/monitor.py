"""The monitor of the other party: states from the outboxes, receipts from the archive, signs of life as they lie there."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from kits.secondparty import files

_OF_RECEIPTS = {"CONSUMED": "RUNNING", "SUCCEEDED": "COMPLETED", "FAILED": "FAILED"}


@dataclass
class Monitor:
    """Each step writes the status of every plan."""

    root: Path
    agents: set[str] = field(default_factory=set)
    """Agents whose sign of life it could read."""

    def step(self, now: datetime) -> None:
        for plan_id in files.folders(self.root / "system_runtime" / "plans"):
            self._plan(plan_id, now)
        for agent_id in files.folders(self.root / "agents"):
            sign = files.read_if_there(self.root / "agents" / agent_id / "status_heartbeat.json")
            if sign and (sign.get("uptime_seconds") is None or isinstance(sign["uptime_seconds"], int)):
                self.agents.add(agent_id)

    def _plan(self, plan_id: str, now: datetime) -> None:
        folder = self.root / "system_runtime" / "plans" / plan_id
        dag = files.read_if_there(folder / "task_dag.json")
        if dag is None:
            return
        tasks = [self._task(plan_id, folder, node) for node in dag["nodes"]]
        files.write(
            folder / "plan_status.json",
            {
                "schema_version": "1.0",
                "plan_id": plan_id,
                "active_task_dag_sha256": files.sha256((folder / "task_dag.json").read_bytes()),
                "updated_at": files.stamp(now),
                "blocked_summary": {"INPUT": 0, "REVIEW": 0, "HUMAN": 0},
                "tasks": tasks,
                "written_by": "the other party",
            },
        )

    def _task(self, plan_id: str, folder: Path, node: dict[str, Any]) -> dict[str, Any]:
        agent_id, task_id = node["assigned_agent_id"], node["task_id"]
        about = {"task_id": task_id, "assigned_agent_id": agent_id}
        box = self.root / "agents" / agent_id / "outbox" / plan_id
        state = files.read_if_there(box / f"task_state_{task_id}.json")
        if state:
            return {
                **about,
                "state": state["state"],
                "updated_at": state["updated_at"],
                "blocking": state.get("blocking"),
            }
        acks = [files.read(path) for path in sorted((folder / "acks").glob("ack_*.json"))]
        mine = [ack for ack in acks if ack.get("task_id") == task_id and ack.get("command_id")]
        mine.sort(key=lambda ack: ack["command_id"])
        found = _OF_RECEIPTS[mine[-1]["status"]] if mine else "PENDING"
        return {**about, "state": found, "updated_at": None, "blocking": None}
