"""Comments on a task and outputs submitted for it, by the API.

A write of an agent is fenced: the same transaction checks that its attempt still has the task.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, NamedTuple, NotRequired, TypedDict, TypeVar, cast

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, ConflictError, UsageError
from agenttalk.engine.core import boards, records
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_status import TaskView, describe_status
from agenttalk.ports.statements.core import (
    ADD_COMMENT,
    ANSWER_KEY,
    COMMENTS_OF,
    HOLD_ATTEMPT,
    TAKE_KEY,
    TASK_STATUS,
    CommentRow,
)
from agenttalk.ports.statements.messages import CONTROL, TASK
from agenttalk.ports.storage import Store, Tx

CommentType = Literal[
    "general",
    "handoff",
    "observation",
    "review",
    "rebuttal",
    "rebuttal_response",
    "debate_argument",
    "debate_rebuttal",
    "debate_judgment",
    "action_report",
]
PAGE: Final = 200
"""How many comments are shown at once."""

A = TypeVar("A", bound=Mapping[str, Any])


class TaskName(NamedTuple):
    """The name of a task in the root."""

    board: str
    plan_id: str
    task_id: str

    @property
    def subject(self) -> str:
        """Return the subject of the task's facts in the ledger."""
        return f"{self.plan_id}/{self.task_id}"


@dataclass(frozen=True, slots=True)
class TaskContribution:
    """A comment on a task, or an output submitted for it."""

    kind: Literal["comment", "output"]
    author: str
    type: str
    body: str
    claims: Any = None

    def as_json(self) -> dict[str, object]:
        """Return only the fields that are set."""
        return {key: value for key, value in asdict(self).items() if value is not None}


class StoredContribution(TypedDict):
    """A comment on a task, or an output submitted for it, as it is stored."""

    id: int
    author: str
    type: str
    body: str
    epoch: int | None
    """The epoch of the attempt that wrote it; null where no attempt did."""
    at: str
    claims: NotRequired[Any]


class ContributionReceipt(TypedDict):
    """The receipt for a stored comment or output."""

    id: int
    at: str
    task: str
    author: str
    type: str


class TaskCommentPage(TaskView):
    """A task with a page of its comments and outputs."""

    plan_id: str
    board_name: str
    """The board on which its plan lives."""
    running: bool
    """Whether an attempt is under way."""
    epoch: int
    """The number of its last lease."""
    comments: list[StoredContribution]
    outputs: list[StoredContribution]
    next: int | None


async def read_task(deps: Deps, task: TaskName, *, after: int = 0, stale: Collection[str] = ()) -> TaskCommentPage:
    """Read a task with its comments, from after a given comment on. Raises UsageError when there is no such task.

    `stale` names tasks that were found stale, which is not stored yet.
    """
    board = await board_of_task(deps, task)
    rows = await board.read(TASK_STATUS, plan_id=task.plan_id, task_id=task.task_id)
    if not rows:
        raise _unknown(task)
    remarks = await board.read(COMMENTS_OF, plan_id=task.plan_id, task_id=task.task_id, after=after, limit=PAGE)
    return {
        **describe_status(rows[0], stale),
        "plan_id": task.plan_id,
        "board_name": task.board,
        "running": rows[0].lease is not None,
        "epoch": rows[0].epoch,
        "comments": [_describe_remark(remark) for remark in remarks if remark.kind == "comment"],
        "outputs": [_describe_remark(remark) for remark in remarks if remark.kind == "output"],
        "next": remarks[-1].id if len(remarks) == PAGE else None,
    }


async def post_contribution(
    deps: Deps, task: TaskName, remark: TaskContribution, caller: Caller, *, key: str | None = None
) -> ContributionReceipt:
    """Store a comment, and return what was stored. The same key with the same comment returns the same answer again.

    Raises UsageError when there is no such task, when the caller's attempt is over, and when a caller writes in
    another's name; ConflictError when the key was used for another comment.
    """
    if remark.author != caller.name:
        hint = f"say {caller.name!r}, or use the token of {remark.author!r}"
        raise UsageError(Code.NOT_ALLOWED, f"this token is not that of {remark.author!r}", hint=hint)
    secrets = deps.secret_guard.secrets
    if secrets:
        remark = replace(remark, body=secrets.redact(remark.body), claims=secrets.redact_json(remark.claims))
    board = await board_of_task(deps, task)
    if not await board.read(TASK, plan_id=task.plan_id, task_id=task.task_id):
        raise _unknown(task)
    at = deps.stamp()
    return await board.transact(lambda tx: _post_contribution(tx, task, remark, caller, key, at))


def _post_contribution(
    tx: Tx, task: TaskName, remark: TaskContribution, caller: Caller, key: str | None, at: str
) -> ContributionReceipt:
    require_current_attempt(tx, task, caller)
    if key is None:
        return _keep(tx, task, remark, caller, at)
    # Another attempt is another request, though its program may use the same keys.
    epoch = caller.attempt.epoch if caller.attempt else 0
    once = IdempotentRequest(
        task.plan_id, caller.name, f"{task.task_id}/{caller.name}/{epoch}/{key}", remark.as_json(), at
    )
    return once.run_once(tx, lambda: _keep(tx, task, remark, caller, at))


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """A request under a key: it is carried out once, and the same request gets the same answer again."""

    plan_id: str
    by: str
    key: str
    body: wire.JsonValue
    at: str

    def run_once(self, tx: Tx, work: Callable[[], A]) -> A:
        """Carry it out, unless it was; raises ConflictError when the key was used for another request."""
        about = {"plan_id": self.plan_id, "id": records.derive_id("key", self.key)}
        sha256 = wire.sha256(wire.write(self.body))
        if tx.run(TAKE_KEY, **about, agent_id=self.by, sha256=sha256, body=b"", at=self.at):
            answer = work()
            tx.run(ANSWER_KEY, **about, body=wire.write(dict(answer)))
            return answer
        [(known, before, _)] = tx.run(CONTROL, **about, kind="api.key")
        if known != sha256:
            hint = "give each request a key of its own"
            raise ConflictError(Code.KEY_REUSED, "this key was used for another request", hint=hint)
        told: Any = wire.read(bytes(before))
        return cast("A", told)


def require_current_attempt(tx: Tx, task: TaskName, caller: Caller) -> None:
    """Check that an agent's attempt still has the task, so that its write counts."""
    if caller.attempt is None:
        return
    held = tx.run(
        HOLD_ATTEMPT, plan_id=task.plan_id, task_id=task.task_id, epoch=caller.attempt.epoch, token=caller.token
    )
    if (tx.board, task.plan_id, task.task_id) != caller.attempt.task or not held:
        raise UsageError(Code.LEASE_LOST, f"attempt {caller.attempt.epoch} does not have {task.subject} any more")


def _keep(tx: Tx, task: TaskName, remark: TaskContribution, caller: Caller, at: str) -> ContributionReceipt:
    epoch = caller.attempt.epoch if caller.attempt else None
    body = wire.write(remark.as_json())
    [(number,)] = tx.run(
        ADD_COMMENT,
        plan_id=task.plan_id,
        task_id=task.task_id,
        kind=remark.kind,
        author=remark.author,
        type=remark.type,
        body=remark.body,
        claims=None if remark.claims is None else wire.write(remark.claims),
        epoch=epoch,
        at=at,
    )
    fact = {"id": number, "author": remark.author, "type": remark.type, "sha256": wire.sha256(body), "epoch": epoch}
    tx.record(f"task.{remark.kind}", task.subject, fact)
    return {"id": number, "at": at, "task": task.subject, "author": remark.author, "type": remark.type}


async def board_of_task(deps: Deps, task: TaskName) -> Store:
    """Find the board of a task. A board that only the caller names is not created."""
    if task.board in boards.VIRTUAL and deps.stores.has_board(task.board):
        return await deps.stores.board(task.board)
    if task.board in boards.VIRTUAL:
        raise _unknown(task)
    board = await boards.board_of(deps, task.plan_id)
    if board.name != task.board:
        raise _unknown(task)
    return board


def _unknown(task: TaskName) -> UsageError:
    return UsageError(Code.TASK_NOT_FOUND, f"board {task.board!r} has no task {task.subject!r}")


def _describe_remark(row: CommentRow) -> StoredContribution:
    remark: StoredContribution = {
        "id": row.id,
        "author": row.author,
        "type": row.type,
        "body": row.body,
        "epoch": row.epoch,
        "at": row.at,
    }
    if row.claims:
        remark["claims"] = wire.read(bytes(row.claims))
    return remark
