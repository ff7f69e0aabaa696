"""The router of the other party: copies messages to where the DAG says, and leaves everything lying in the outboxes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from kits.secondparty import files

GATEWAY = "agent_human_gateway"


class RefusedError(Exception):
    """A message that is not delivered."""


@dataclass
class Router:
    """Each step looks once through all outboxes."""

    root: Path
    refused: set[str] = field(default_factory=set)

    def step(self, now: datetime) -> None:
        agents = self.root / "agents"
        plans = {plan for agent in files.folders(agents) for plan in files.folders(agents / agent / "outbox")}
        for plan_id in sorted(plans):
            Round(self, plan_id, now).step()


@dataclass
class Round:
    """One look at a plan."""

    router: Router
    plan_id: str
    now: datetime

    @property
    def plan(self) -> Path:
        return self.router.root / "system_runtime" / "plans" / self.plan_id

    def box(self, agent_id: str, which: str) -> Path:
        return self.router.root / "agents" / agent_id / which / self.plan_id

    def step(self) -> None:
        agents = files.folders(self.router.root / "agents")
        self._requests(agents)
        self._responses()
        for agent_id in agents:
            for path in sorted(self.box(agent_id, "outbox").glob("ack_*.json")):
                files.put(self.plan / "acks" / path.name, path.read_bytes())
        dag_bytes = (self.plan / "task_dag.json").read_bytes()
        pointer = files.read(self.plan / "active_dag_ref.json")
        if pointer["task_dag_sha256"] != files.sha256(dag_bytes):
            return
        dag = files.read(self.plan / "task_dag.json")
        for agent_id in agents:
            for path in files.messages(self.box(agent_id, "outbox")):
                self._deliver(agent_id, path, dag, files.sha256(dag_bytes))

    def _journal(self) -> list[dict[str, Any]]:
        path = self.plan / "deliveries.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []

    def _deliver(self, agent_id: str, path: Path, dag: dict[str, Any], dag_sha256: str) -> None:
        digest = files.sha256(path.read_bytes())
        if digest in self.router.refused or any(line["envelope_sha256"] == digest for line in self._journal()):
            return
        try:
            self._send(path, digest, self._own(agent_id, files.read(path)), dag, dag_sha256)
        except (RefusedError, ValueError, KeyError) as error:
            self.router.refused.add(digest)
            self._deadletter(path, agent_id, error)

    def _own(self, agent_id: str, envelope: dict[str, Any]) -> dict[str, Any]:
        if envelope["producer_agent_id"] != agent_id or envelope["plan_id"] != self.plan_id:
            raise RefusedError("PRODUCER_MISMATCH")
        return envelope

    def _send(self, path: Path, digest: str, envelope: dict[str, Any], dag: dict[str, Any], dag_sha256: str) -> None:
        nodes = {node["task_id"]: node for node in dag["nodes"]}
        node = nodes.get(envelope["task_id"])
        if node is None:
            raise RefusedError("TASK_NOT_IN_DAG")
        if envelope["type"] == "command":
            command = envelope["payload"]["command"]
            if command["dag_ref"]["sha256"] != dag_sha256:
                raise RefusedError("COMMAND_DAG_MISMATCH")
            files.put(self.plan / "commands" / path.name, path.read_bytes())
            targets, payload = [node["assigned_agent_id"]], []
        else:
            outputs = {output["name"]: output for output in node.get("outputs", [])}
            targets = outputs.get(envelope["output_name"], {}).get("deliver_to", [])
            payload = envelope["payload"]["files"]
            if not targets and not outputs.get(envelope["output_name"], {}).get("deliverable"):
                raise RefusedError("ROUTING_NO_TARGET")
        for target in targets:
            inbox = self.box(target, "inbox")
            for file in payload:
                content = (path.parent / file["path"]).read_bytes()
                if files.sha256(content) != file["sha256"]:
                    raise RefusedError("PAYLOAD_HASH_MISMATCH")
                files.put(inbox / file["path"], content)
            files.put(inbox / path.name, path.read_bytes())
            self._log(envelope, digest, target, payload)

    def _log(self, envelope: dict[str, Any], digest: str, target: str, payload: list[Any]) -> None:
        line = {
            "schema_version": "1.0",
            "delivery_id": f"del_{files.number(self.now)}",
            "plan_id": self.plan_id,
            "message_id": envelope["message_id"],
            "envelope_sha256": digest,
            "task_id": envelope["task_id"],
            "command_id": envelope.get("command_id"),
            "output_name": envelope.get("output_name"),
            "from_agent_id": envelope["producer_agent_id"],
            "to_agent_id": target,
            "delivered_at": files.stamp(self.now),
            "status": "DELIVERED",
            "skip_reason": None,
            "superseded": None,
            "payload": {"files": payload},
        }
        with (self.plan / "deliveries.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")

    # People

    def _requests(self, agents: list[str]) -> None:
        for agent_id in agents:
            for path in sorted(self.box(agent_id, "outbox").glob("human_intervention_request_*.json")):
                target = self.plan / "human_requests" / path.name
                if not target.exists():
                    files.put(target, path.read_bytes())
                    files.put(self.box(GATEWAY, "inbox") / path.name, path.read_bytes())

    def _responses(self) -> None:
        for path in sorted(self.box(GATEWAY, "outbox").glob("human_intervention_response_*.json")):
            response = files.read(path)
            done = self.plan / "human_responses" / path.name
            request = files.read_if_there(
                self.plan / "human_requests" / f"human_intervention_request_{response['request_id']}.json"
            )
            if done.exists() or request is None:
                continue
            for file in response["provided_files"]:
                self._provide(path.parent / file["name"], file, request)
            files.put(done, path.read_bytes())

    def _provide(self, source: Path, file: dict[str, Any], request: dict[str, Any]) -> None:
        target = file.get("deliver_to_agent_id") or request["created_by"]["agent_id"]
        inbox = self.box(target, "inbox")
        files.put(inbox / file["name"], source.read_bytes())
        message_id = f"msg_human_{files.number(self.now)}"
        envelope = {
            "schema_version": "1.0",
            "message_id": message_id,
            "plan_id": self.plan_id,
            "producer_agent_id": GATEWAY,
            "type": "artifact",
            "created_at": files.stamp(self.now),
            "task_id": request["created_by"]["task_id"],
            "output_name": f"human_{file['name']}",
            "payload": {"files": [{"path": file["name"], "sha256": file["sha256"]}]},
        }
        path = inbox / f"{message_id}.msg.json"
        files.write(path, envelope)
        self._log(envelope, files.sha256(path.read_bytes()), target, envelope["payload"]["files"])

    def _deadletter(self, path: Path, agent_id: str, error: Exception) -> None:
        deadletter_id = f"dlq_{files.number(self.now)}"
        files.write(
            self.router.root / "system_runtime" / "deadletter" / self.plan_id / f"{deadletter_id}.json",
            {
                "schema_version": "1.0",
                "plan_id": self.plan_id,
                "deadletter_id": deadletter_id,
                "created_at": files.stamp(self.now),
                "reason": {"code": str(error), "message": str(error)},
                "original": {"file_name": path.name, "message_id": None, "producer_agent_id": agent_id},
                "actions": {"retriable": False, "suggested_next": "alert"},
            },
        )
