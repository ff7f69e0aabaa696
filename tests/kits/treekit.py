"""A tree made by hand: agents, a DAG and its pointer, envelopes in outboxes. No code of the engine is used."""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NUMBERS = itertools.count(1)


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def dumped(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False, indent=2).encode()


def question(request_id: str, *, for_whom: str) -> dict[str, Any]:
    """What the developer asks people for: a file that somebody is to get."""
    return {
        "schema_version": "1.0",
        "request_id": request_id,
        "created_by": {"agent_id": "dev", "task_id": "build"},
        "severity": "HIGH",
        "type": "MISSING_FILE",
        "title": "Which prices?",
        "needed": {"files": [{"name": "prices.csv", "deliver_to_agent_id": for_whom}]},
    }


@dataclass
class Tree:
    """A root with one plan; more plans by `plan_id`."""

    root: Path
    plan_id: str = "plan_shop"
    dags: dict[str, str] = field(default_factory=dict)
    """Plan → hash of its DAG."""

    def agent(self, agent_id: str, **profile: Any) -> Path:
        """A folder under agents/, with a profile if anything is said about it."""
        folder = self.root / "agents" / agent_id
        folder.mkdir(parents=True, exist_ok=True)
        if profile:
            document = {"schema_version": "1.0", "agent_id": agent_id, **profile}
            (folder / "agent_profile.json").write_bytes(dumped(document))
        return folder

    def dag(self, nodes: list[dict[str, Any]], *, plan_id: str = "", agents: bool = True, **more: Any) -> str:
        """task_dag.json and the pointer to it; returns its hash."""
        plan_id = plan_id or self.plan_id
        data = dumped({"schema_version": "1.1", "plan_id": plan_id, "nodes": nodes, **more})
        folder = self.plan_folder(plan_id)
        folder.mkdir(parents=True, exist_ok=True)
        self.dags[plan_id] = sha256(data)
        pointer = {"schema_version": "1.0", "plan_id": plan_id, "dag_kind": "business", "task_dag_sha256": sha256(data)}
        (folder / "task_dag.json").write_bytes(data)
        (folder / "active_dag_ref.json").write_bytes(dumped(pointer))
        if agents:
            for node in nodes:
                self.agent(node["assigned_agent_id"])
        return self.dags[plan_id]

    def plan_folder(self, plan_id: str = "") -> Path:
        return self.root / "system_runtime" / "plans" / (plan_id or self.plan_id)

    def box(self, agent_id: str, which: str, plan_id: str = "") -> Path:
        return self.root / "agents" / agent_id / which / (plan_id or self.plan_id)

    def put(self, agent_id: str, name: str, document: dict[str, Any] | bytes, *, plan_id: str = "") -> Path:
        """A file in an outbox, put there as a program would: written beside, then renamed."""
        folder = self.box(agent_id, "outbox", plan_id)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".tmp-{next(NUMBERS)}"
        temporary.write_bytes(document if isinstance(document, bytes) else dumped(document))
        temporary.rename(path)
        return path

    def command(
        self, sender: str, task_id: str, seq: int = 1, *, message_id: str = "", plan_id: str = "", **fields: Any
    ) -> str:
        """A command envelope in the sender's outbox; returns its message_id."""
        plan_id = plan_id or self.plan_id
        message_id = message_id or f"msg_{task_id}_{seq}_{next(NUMBERS)}"
        command_id = f"cmd_{task_id}_{seq:03d}"
        command = {
            "schema_version": "1.0",
            "plan_id": plan_id,
            "task_id": task_id,
            "command_id": command_id,
            "command_seq": seq,
            "dag_ref": {"sha256": self.dags.get(plan_id, sha256(b""))},
            "prompt": f"Do {task_id}.",
            "required_inputs": [],
            "wait_for_inputs": False,
            "score_required": False,
            "timeout": 60,
            **fields,
        }
        if plan_id.startswith("_"):
            del command["dag_ref"]
        envelope = {
            "schema_version": "1.0",
            "message_id": message_id,
            "plan_id": plan_id,
            "producer_agent_id": sender,
            "type": "command",
            "created_at": "2026-01-08T10:30:00Z",
            "task_id": task_id,
            "command_id": command_id,
            "payload": {"command": command},
        }
        self.put(sender, f"cmd_{task_id}_{seq:03d}.msg.json", envelope, plan_id=plan_id)
        return message_id

    def artifact(
        self,
        sender: str,
        task_id: str,
        output: str,
        files: dict[str, bytes],
        *,
        message_id: str = "",
        seq: int | None = None,
        plan_id: str = "",
        **fields: Any,
    ) -> str:
        """Payload files and then the envelope in the sender's outbox; returns its message_id."""
        plan_id = plan_id or self.plan_id
        message_id = message_id or f"msg_{task_id}_{next(NUMBERS)}"
        for path, data in files.items():
            self.put(sender, path, data, plan_id=plan_id)
        envelope = {
            "schema_version": "1.0",
            "message_id": message_id,
            "plan_id": plan_id,
            "producer_agent_id": sender,
            "type": "artifact",
            "created_at": "2026-01-08T10:30:00Z",
            "task_id": task_id,
            "output_name": output,
            "payload": {"files": [{"path": path, "sha256": sha256(data)} for path, data in files.items()]},
            **({"command_id": f"cmd_{task_id}_{seq:03d}"} if seq is not None else {}),
            **fields,
        }
        self.put(sender, f"artifact_{message_id}.msg.json", envelope, plan_id=plan_id)
        return message_id

    def names(self, folder: str) -> list[str]:
        """What lies in a folder under the root, hidden names left out."""
        path = self.root / folder
        return sorted(each.name for each in path.iterdir() if not each.name.startswith(".")) if path.is_dir() else []

    def inbox(self, agent_id: str, plan_id: str = "") -> list[str]:
        return self.names(str(self.box(agent_id, "inbox", plan_id).relative_to(self.root)))

    def journal(self, plan_id: str = "") -> list[dict[str, Any]]:
        """The lines of deliveries.jsonl."""
        path = self.plan_folder(plan_id) / "deliveries.jsonl"
        return [json.loads(line) for line in path.read_bytes().split(b"\n") if line] if path.exists() else []

    def documents(self, folder: str) -> list[dict[str, Any]]:
        """Every *.json in a folder under system_runtime/."""
        path = self.root / "system_runtime" / folder
        return [json.loads(each.read_bytes()) for each in sorted(path.glob("*.json"))] if path.is_dir() else []

    def codes(self, plan_id: str = "") -> list[str]:
        """The codes of the plan's dead letters."""
        return sorted(each["reason"]["code"] for each in self.documents(f"deadletter/{plan_id or self.plan_id}"))


def node(task_id: str, agent_id: str, **fields: Any) -> dict[str, Any]:
    return {"task_id": task_id, "assigned_agent_id": agent_id, **fields}


def output(name: str, *receivers: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "deliver_to": list(receivers), **fields}
