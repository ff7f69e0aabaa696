"""Finds and reads files in the outboxes of agents, and moves them away once they are taken in.

Everything here blocks and touches folders only. Nothing is decided.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.errors import AgentTalkError, Code, InputError, MachineError, MissingError
from agenttalk.engine.core.unchanged_folders import UnchangedFolders
from agenttalk.ports.folders import Folder, FolderEntry
from agenttalk.rules.core.redaction import NO_SECRETS, Secrets
from agenttalk.rules.messages.control_files import kind_of

LOG = logging.getLogger(__name__)
_LONGEST: Final = 255
_LARGEST: Final = 64 * 1024 * 1024
"""The most bytes of a refused file that are searched for secrets."""
_RAW: Final = "//"
"""The prefix of stored names that are not UTF-8; no file name can begin with it."""


@dataclass(frozen=True, slots=True)
class OutboxFile:
    """A message or control file in an outbox."""

    agent_id: str
    plan_id: str
    entry: FolderEntry
    control: str | None
    """Its kind, if it is a control file."""

    @property
    def path(self) -> str:
        """Its path below the root."""
        return f"{root_layout.box_folder(self.agent_id, 'outbox', self.plan_id)}/{self.entry.name}"

    @property
    def name(self) -> str:
        """Its name in the store."""
        return encode_name(self.entry.name)

    @property
    def key(self) -> str:
        """A key that no other file has, not even a later one with the same name."""
        return f"{self.agent_id}/{self.plan_id}/{self.name}/{self.entry.inode}/{self.entry.mtime_ns}"


@dataclass(frozen=True, slots=True)
class OutboxProblem:
    """A folder that could not be read."""

    agent_id: str
    plan_id: str
    where: str
    error: AgentTalkError


@dataclass(frozen=True, slots=True)
class OutboxContents:
    """The files in the outboxes of all agents."""

    files: dict[str, list[OutboxFile]]
    """Plan → files."""
    troubles: list[OutboxProblem]


def encode_name(name: str) -> str:
    """Encode a file name as text for the store. A name that is not UTF-8 becomes hex, except its message suffix."""
    raw = os.fsencode(name)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        stem = raw.removesuffix(root_layout.MESSAGE.encode())
        return _RAW + stem.hex() + raw[len(stem) :].decode()


def decode_name(name: str) -> str:
    """Decode the name of a file from the store."""
    if not name.startswith(_RAW):
        return name
    text = name.removeprefix(_RAW)
    stem = text.removesuffix(root_layout.MESSAGE)
    return os.fsdecode(bytes.fromhex(stem)) + text[len(stem) :]


def read_outboxes(
    root: Folder, agents: Iterable[str], quiet: UnchangedFolders | None = None, known: Collection[str] = ()
) -> OutboxContents:
    """Read all outboxes. A misleading folder is reported and skipped.

    A frequent caller passes `quiet`, which records the folders that need not be read, and the keys of files that are
    `known` and stay there.
    """
    gathered = OutboxContents({}, [])
    quiet = quiet or UnchangedFolders()
    for agent_id in agents:
        outbox = f"{root_layout.agent_folder(agent_id)}/outbox"
        now = quiet.now()
        try:
            with root.open_folder(outbox) as folder:
                entries = [entry for entry in folder.scan() if not entry.name.startswith(".")]
        except MissingError:
            continue
        except AgentTalkError as error:
            gathered.troubles.append(OutboxProblem(agent_id, "", "outbox", error))
            continue
        for entry in sorted(entries, key=lambda each: each.name):
            key = f"{agent_id}/{entry.name}"
            if (
                quiet.is_unchanged(key, entry, now)
                or entry.kind == "regular"
                or not entry.is_text
                or not is_id(entry.name)
            ):
                continue
            quiet.record(key, entry, now, news=_read_outbox(root, agent_id, entry.name, gathered, known))
    return gathered


def _read_outbox(root: Folder, agent_id: str, plan_id: str, gathered: OutboxContents, known: Collection[str]) -> bool:
    """Look into one outbox of a plan; whether something new lies there, or it could not be seen."""
    try:
        with root.open_folder(root_layout.box_folder(agent_id, "outbox", plan_id)) as folder:
            entries = [entry for entry in folder.scan() if _is_interesting(entry.name, plan_id)]
    except MissingError:
        return True
    except AgentTalkError as error:
        gathered.troubles.append(OutboxProblem(agent_id, plan_id, f"outbox/{plan_id}", error))
        return True
    all_found = [OutboxFile(agent_id, plan_id, entry, kind_of(entry.name, plan_id)) for entry in entries]
    found = [each for each in all_found if each.key not in known]
    if found:
        gathered.files.setdefault(plan_id, []).extend(sorted(found, key=lambda each: each.entry.name))
    return bool(found)


def _is_interesting(name: str, plan_id: str) -> bool:
    return not name.startswith(".") and (name.endswith(root_layout.MESSAGE) or kind_of(name, plan_id) is not None)


def read_outbox_file(root: Folder, found: OutboxFile, limit: int = wire.ENVELOPE_LIMIT) -> bytes | InputError | None:
    """Read a file. Returns its bytes, or the reason to refuse it; None if it vanished. Raises MachineError."""
    if not found.entry.is_text:
        return InputError(Code.FILE_UNSAFE, "its name is not UTF-8", hint="give it another name")
    try:
        return root.read(found.path, limit)
    except InputError as error:
        return error
    except MissingError:
        return None


def find_payload(root: Folder, agent_id: str, plan_id: str, path: str) -> str:
    """Find a payload: beside its envelope, or where an earlier message with the same file moved it."""
    box = root_layout.box_folder(agent_id, "outbox", plan_id)
    sent = f"{box}/{root_layout.SENT}/{path}"
    return sent if not root.exists(f"{box}/{path}") and root.exists(sent) else f"{box}/{path}"


@dataclass(frozen=True, slots=True)
class OutboxRemoval:
    """A file that was taken in and has still to be moved out of the outbox."""

    id: int
    plan_id: str
    agent_id: str
    name: str
    inode: int
    mtime_ns: int
    target: Literal[".sent", ".rejected"]
    reason: bytes | None
    payloads: tuple[str, ...]

    @property
    def key(self) -> str:
        """The same as `OutboxFile.key`."""
        return f"{self.agent_id}/{self.plan_id}/{self.name}/{self.inode}/{self.mtime_ns}"


def remove_from_outbox(
    root: Folder, leaving: OutboxRemoval, secrets: Secrets = NO_SECRETS
) -> InputError | MachineError | None:
    """Move a file and its payloads away; None when nothing is left to do, else why it would not go.

    What has its name but is another file stays. Done twice, it does nothing. One that was refused loses the secrets in
    it on the way.
    """
    box = root_layout.box_folder(leaving.agent_id, "outbox", leaving.plan_id)
    try:
        with root.open_folder(box) as folder:
            target = leaving.target
            folder.make_folder(target)
            name = decode_name(leaving.name)
            if leaving.reason is not None:
                folder.write(f"{target}/{_reason_name(name)}", leaving.reason)
            for path in leaving.payloads:
                _move_payload(folder, path, f"{target}/{path}")
            if _is_same(folder, name, leaving):
                if target == root_layout.REJECTED and secrets:
                    _redact(folder, name, f"{target}/{name}", secrets)
                if folder.exists(name):
                    _move_aside(folder, name, f"{target}/{name}")
    except MissingError:
        return None  # the agent removed its outbox
    except (InputError, MachineError) as error:
        return error
    return None


def _redact(folder: Folder, name: str, new: str, secrets: Secrets) -> None:
    """Redact a refused file, which stays for people. A file that cannot be read stays as it is."""
    with suppress(InputError, MissingError):
        said = folder.read(name, _LARGEST)
        clean = secrets.redact_bytes(said)
        if clean != said:
            folder.write(new, clean)
            folder.remove(name)


def withhold_names(root: Folder, files: list[OutboxFile], secrets: Secrets) -> list[OutboxFile]:
    """Remove files whose names contain a secret, and refuse them under another name. Returns the others."""
    kept = []
    for found in files:
        if secrets.find_name(os.fsencode(found.entry.name)) is None:
            kept.append(found)
            continue
        LOG.warning("a file of %s whose name holds a secret was refused", found.agent_id, extra={"action": "outbox"})
        with (
            suppress(AgentTalkError),
            root.open_folder(root_layout.box_folder(found.agent_id, "outbox", found.plan_id)) as folder,
        ):
            folder.make_folder(root_layout.REJECTED)
            new = f"{root_layout.REJECTED}/withheld-{wire.sha256(os.fsencode(found.key))[7:23]}"
            _redact(folder, found.entry.name, new, secrets)
            if folder.exists(found.entry.name):
                folder.move(found.entry.name, folder, new, replace=True)
    return kept


def _is_same(folder: Folder, name: str, leaving: OutboxRemoval) -> bool:
    entry = folder.entry(name)
    return entry is not None and (entry.inode, entry.mtime_ns) == (leaving.inode, leaving.mtime_ns)


def _move_payload(folder: Folder, path: str, new: str) -> None:
    try:
        folder.make_folder(new.rpartition("/")[0])
        folder.move(path, folder, new, replace=True)
    except MissingError:
        return
    with suppress(MachineError):  # a folder that holds something else stays
        above = path.rpartition("/")[0]
        while above and folder.remove(above):
            above = above.rpartition("/")[0]


def _move_aside(folder: Folder, name: str, new: str) -> None:
    """Move a file without overwriting an earlier message of that name. A newer receipt replaces an older one."""
    copy = 0
    if kind_of(name) and new.startswith(f"{root_layout.SENT}/"):
        folder.move(name, folder, new, replace=True)
        return
    above, _, last = new.rpartition("/")
    while not folder.move(name, folder, f"{above}/{_ending(last, f'__dup_{copy}')}" if copy else new):
        copy += 1


def _reason_name(name: str) -> str:
    return _ending(encode_name(name).removeprefix(_RAW), ".reason.json")


def _ending(name: str, end: str) -> str:
    """Append a suffix to a name, and cut the name to the limit of file systems."""
    return os.fsdecode(os.fsencode(name)[: _LONGEST - len(end)]) + end
