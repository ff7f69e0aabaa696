"""The agent side of the other party: takes messages, waits for inputs, works, and leaves its receipts lying there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from kits.secondparty import files

FINAL = ("SUCCEEDED", "FAILED")


@dataclass(frozen=True)
class Made:
    """What came of a command: outputs with their files, commands for others, and whether it went well."""

    outputs: dict[str, dict[str, bytes]] = field(default_factory=dict)
    orders: tuple[dict[str, Any], ...] = ()
    ok: bool = True


Work = Callable[[dict[str, Any], dict[str, bytes]], Made]
"""The command and the inputs that it found, by path → what came of it."""


class RefusedError(Exception):
    """A message that this party does not take."""


@dataclass
class Heartbeat:
    """One agent. Each step looks once at all its inboxes."""

    root: Path
    agent_id: str
    work: Work
    in_folders: bool = False
    """Whether files of outputs lie in a folder named like their message."""
    runs: list[str] = field(default_factory=list)
    """The commands that it ran, in order."""

    @property
    def folder(self) -> Path:
        return self.root / "agents" / self.agent_id

    def step(self, now: datetime) -> None:
        plans = files.folders(self.folder / "inbox")
        files.write(
            self.folder / "status_heartbeat.json",
            {
                "schema_version": "1.0",
                "agent_id": self.agent_id,
                "last_heartbeat": files.stamp(now),
                "health": "HEALTHY",
                "status": "RUNNING",
                "uptime_seconds": None,
                "current_plan_ids": plans,
                "current_task_ids": None,
                "resource_usage": None,
                "last_error": None,
            },
        )
        for plan_id in plans:
            Desk(self, plan_id, now).step()


@dataclass
class Desk:
    """An agent's boxes in a plan."""

    beat: Heartbeat
    plan_id: str
    now: datetime

    @property
    def inbox(self) -> Path:
        return self.beat.folder / "inbox" / self.plan_id

    @property
    def outbox(self) -> Path:
        return self.beat.folder / "outbox" / self.plan_id

    @property
    def inputs(self) -> Path:
        return self.beat.folder / "workspace" / self.plan_id / "inputs"

    def step(self) -> None:
        for path in files.messages(self.inbox):
            self._claim(path)
        for path in files.messages(self.inbox / ".pending"):
            self._work(path)

    def _claim(self, path: Path) -> None:
        pending = self.inbox / ".pending" / path.name
        files.move(path, pending)
        try:
            envelope = self._checked(files.read(pending))
        except (ValueError, RefusedError) as error:
            files.move(pending, self.inbox / ".deadletter" / path.name)
            self._alert("SCHEMA_INVALID", str(error), {"file": path.name})
            return
        message_id = envelope["message_id"]
        claimed = self.inbox / ".pending" / f"{message_id}__{path.name.removeprefix(f'{message_id}__')}"
        pending.rename(claimed)
        if self._status(message_id) in FINAL:
            files.move(claimed, self.inbox / ".processed" / claimed.name)
        elif envelope["type"] == "artifact":
            self._keep(claimed, envelope)

    @staticmethod
    def _checked(envelope: Any) -> dict[str, Any]:
        """This party's own schema: a command has to say which files it wants, if it names outputs at all."""
        if not isinstance(envelope, dict) or envelope.get("type") not in {"command", "artifact"}:
            raise RefusedError("no envelope")
        if envelope["type"] == "command":
            command = envelope["payload"]["command"]
            for output in command.get("produces") or []:
                if not output.get("files"):
                    raise RefusedError("produces[].files must not be empty")
            if not isinstance(command.get("command_seq"), int):
                raise RefusedError("command_seq must be a whole number")
        return envelope

    # Artifacts

    def _keep(self, claimed: Path, envelope: dict[str, Any]) -> None:
        index_path = self.inputs / "input_index.json"
        index = files.read_if_there(index_path) or {"schema_version": "1.0", "entries": []}
        stored = []
        for file in envelope["payload"]["files"]:
            source = self.inbox / file["path"]
            if not source.is_file() or files.sha256(source.read_bytes()) != file["sha256"]:
                files.move(claimed, self.inbox / ".deadletter" / claimed.name)
                self._alert("MISSING_PAYLOAD", f"missing payload file: {file['path']}", {"file": claimed.name})
                return
            target = self.inputs / envelope["task_id"] / envelope["output_name"] / file["path"]
            files.put(target, source.read_bytes())
            stored.append({"path": file["path"], "sha256": file["sha256"], "stored_at": target.as_posix()})
            files.move(source, self.inbox / ".processed" / "_payload" / envelope["message_id"] / file["path"])
        now = files.stamp(self.now)
        entry = {name: envelope[name] for name in ("message_id", "task_id", "output_name")}
        entries = [*index["entries"], {**entry, "received_at": now, "files": stored}]
        about = {"plan_id": self.plan_id, "agent_id": self.beat.agent_id, "updated_at": now}
        files.write(index_path, {**index, **about, "entries": entries})
        details = {"ingested_files": [each["path"] for each in stored]}
        self._ack(envelope, "SUCCEEDED", {"ok": True, "details": details}, command=None)
        files.move(claimed, self.inbox / ".processed" / claimed.name)

    def _lookup(self) -> dict[str, bytes]:
        """What it has, by the path that the message gave it; the newest counts."""
        index = files.read_if_there(self.inputs / "input_index.json") or {"entries": []}
        found = {}
        for entry in index["entries"]:
            for file in entry["files"]:
                path = Path(file["stored_at"])
                found[file["path"]] = path.read_bytes() if path.is_file() else b""
        return found

    # Commands

    def _work(self, path: Path) -> None:
        envelope = files.read(path)
        if envelope["type"] != "command":
            return
        if self._status(envelope["message_id"]) not in FINAL and not self._waits(envelope):
            self._run(envelope)
        if self._status(envelope["message_id"]) in FINAL:
            files.move(path, self.inbox / ".processed" / path.name)

    def _waits(self, envelope: dict[str, Any]) -> bool:
        command = envelope["payload"]["command"]
        there = self._lookup()
        missing = [
            {"name": name, "description": "Required input file", "sensitivity": "UNKNOWN"}
            for name in self._needed(command)
            if name not in there
        ]
        if not missing or not command["wait_for_inputs"]:
            return False
        state = files.read_if_there(self.outbox / f"task_state_{command['task_id']}.json") or {}
        if state.get("command_id") == command["command_id"] and state["state"] == "BLOCKED_WAITING_HUMAN":
            return True
        mine = state.get("command_id") == command["command_id"] and state.get("blocking")
        started = mine["started_at"] if mine else files.stamp(self.now)
        blocking = {"reason": "MISSING_INPUTS", "missing": missing, "started_at": started}
        waited = self.now - datetime.fromisoformat(started)
        if waited.total_seconds() < command["timeout"]:
            self._state(envelope, "BLOCKED_WAITING_INPUT", blocking=blocking)
            return True
        request_id = self._ask(command, missing)
        blocking = {"reason": "WAIT_FOR_INPUTS_TIMEOUT", "request_id": request_id, "missing": missing}
        self._state(envelope, "BLOCKED_WAITING_HUMAN", blocking={**blocking, "started_at": started})
        self._alert("WAIT_FOR_INPUTS_TIMEOUT", "wait_for_inputs timeout", {"task_id": command["task_id"]})
        return True

    @staticmethod
    def _needed(command: dict[str, Any]) -> list[str]:
        resolved = command.get("resolved_inputs")
        if isinstance(resolved, list):
            return [need["paths"][0] for need in resolved if need.get("required")]
        return list(command["required_inputs"])

    def _ask(self, command: dict[str, Any], missing: list[dict[str, str]]) -> str:
        request_id = f"human_req_{files.number(self.now)}"
        files.write(
            self.outbox / f"human_intervention_request_{request_id}.json",
            {
                "schema_version": "1.0",
                "request_id": request_id,
                "plan_id": self.plan_id,
                "created_at": files.stamp(self.now),
                "created_by": {
                    "agent_id": self.beat.agent_id,
                    "task_id": command["task_id"],
                    "command_id": command["command_id"],
                },
                "severity": "HIGH",
                "type": "MISSING_FILE",
                "title": None,
                "blocking": {"status": "BLOCKED_WAITING_HUMAN", "reason": "WAIT_FOR_INPUTS_TIMEOUT"},
                "needed": {"files": missing},
                "deadline": None,
                "context_refs": None,
            },
        )
        return request_id

    def _run(self, envelope: dict[str, Any]) -> None:
        command = envelope["payload"]["command"]
        self._ack(envelope, "CONSUMED", None, command=command)
        self._state(envelope, "RUNNING")
        self.beat.runs.append(f"{self.plan_id}/{command['command_id']}")
        made = self.beat.work(command, self._lookup())
        for output_name, contents in made.outputs.items():
            self._hand_over(command, output_name, contents)
        for order in made.orders:
            name = f"cmd_reexecute_{order['task_id']}_{order['command_id'].rpartition('_')[2]}.msg.json"
            files.write(self.outbox / name, order)
        details = {"artifacts": [{"output_name": name} for name in made.outputs]} if made.outputs else None
        result = {"ok": made.ok, "details": details}
        self._ack(envelope, "SUCCEEDED" if made.ok else "FAILED", result, command=command)
        self._state(envelope, "COMPLETED" if made.ok else "FAILED", result=result)

    def _hand_over(self, command: dict[str, Any], output_name: str, contents: dict[str, bytes]) -> None:
        message_id = f"msg_{files.number(self.now)}"
        payload = []
        for name, data in contents.items():
            path = f"{message_id}/{name}" if self.beat.in_folders else name
            files.put(self.outbox / path, data)
            payload.append({"path": path, "sha256": files.sha256(data), "content_type": None, "size_bytes": len(data)})
        files.write(
            self.outbox / f"artifact_{command['task_id']}_{output_name}_{message_id}.msg.json",
            {
                "schema_version": "1.0",
                "message_id": message_id,
                "plan_id": self.plan_id,
                "producer_agent_id": self.beat.agent_id,
                "type": "artifact",
                "subtype": None,
                "created_at": files.stamp(self.now),
                "task_id": command["task_id"],
                "output_name": output_name,
                "command_id": command["command_id"],
                "payload": {"files": payload},
                "correlation": {"parent_command_id": command["command_id"]},
                "notes": None,
            },
        )

    # Control files

    def _status(self, message_id: str) -> str | None:
        """What its own receipt says. It looks for it where it left it."""
        ack = files.read_if_there(self.outbox / f"ack_{message_id}.json")
        return ack["status"] if ack else None

    def _ack(
        self, envelope: dict[str, Any], status: str, result: dict[str, Any] | None, *, command: dict[str, Any] | None
    ) -> None:
        earlier = files.read_if_there(self.outbox / f"ack_{envelope['message_id']}.json") or {}
        now = files.stamp(self.now)
        files.write(
            self.outbox / f"ack_{envelope['message_id']}.json",
            {
                "schema_version": "1.0",
                "plan_id": self.plan_id,
                "message_id": envelope["message_id"],
                "task_id": envelope["task_id"],
                "command_id": command["command_id"] if command else None,
                "command_seq": command["command_seq"] if command else None,
                "consumer_agent_id": self.beat.agent_id,
                "status": status,
                "consumed_at": earlier.get("consumed_at") or now,
                "finished_at": now if status in FINAL else None,
                "result": result,
            },
        )

    def _state(self, envelope: dict[str, Any], state: str, **more: Any) -> None:
        command = envelope["payload"]["command"]
        files.write(
            self.outbox / f"task_state_{command['task_id']}.json",
            {
                "schema_version": "1.0",
                "plan_id": self.plan_id,
                "task_id": command["task_id"],
                "agent_id": self.beat.agent_id,
                "state": state,
                "updated_at": files.stamp(self.now),
                "message_id": envelope["message_id"],
                "command_id": command["command_id"],
                "command_seq": command["command_seq"],
                "blocking": None,
                "progress": None,
                "result": None,
                **more,
            },
        )

    def _alert(self, kind: str, message: str, source: dict[str, Any]) -> None:
        alert_id = f"alert_{files.number(self.now)}"
        files.write(
            self.outbox / f"alert_{alert_id}.json",
            {
                "schema_version": "1.0",
                "alert_id": alert_id,
                "plan_id": self.plan_id,
                "severity": "HIGH",
                "type": kind,
                "created_at": files.stamp(self.now),
                "source": source,
                "message": message,
                "details": None,
            },
        )
