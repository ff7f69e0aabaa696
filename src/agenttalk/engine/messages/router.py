"""The router: one pass reads the outboxes, delivers to the inboxes and publishes the results.

A pass is level-triggered: it reads the present state and does what is missing. Each
step is committed before its files are touched, so a crash anywhere leaves something that the next pass finishes.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.errors import AgentTalkError, Code, InputError, MachineError
from agenttalk.contracts.human import HumanInterventionResponse
from agenttalk.engine.core import records
from agenttalk.engine.core.boards import VIRTUAL, list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.records import RecordSource, RefusedMessage
from agenttalk.engine.core.unchanged_folders import UnchangedFolders
from agenttalk.engine.messages import admission, control_files, delivery, incoming_file, outbox_reader, published_files
from agenttalk.engine.messages.admission import AdmissionOutcome
from agenttalk.engine.messages.control_files import CollectOutcome
from agenttalk.engine.messages.declined_messages import DeclineCollector
from agenttalk.engine.messages.incoming_file import IncomingFile
from agenttalk.engine.messages.outbox_reader import OutboxFile, OutboxProblem, OutboxRemoval
from agenttalk.engine.messages.plan_registry import UNROUTED, PlanRegistry, RoutedPlan
from agenttalk.engine.messages.standing_files import ReadControlFile, StandingFiles
from agenttalk.ports.folders import Folder
from agenttalk.ports.statements.messages import (
    ADD_PLAN,
    IN_FLIGHT,
    LEAVINGS,
    LEFT,
    PLAN,
    PLANS,
    PLANS_UNDER_WAY,
    UNBALANCED_PLANS,
    LeavingRow,
    PlanRow,
)
from agenttalk.ports.storage import Blobs, Store, Tx
from agenttalk.rules.core.redaction import Secrets
from agenttalk.rules.messages.control_files import ControlFile
from agenttalk.rules.messages.routes import MessageTally, Rejection

LOG = logging.getLogger(__name__)
_HINT: Final = "the log says how; please report it"
AT_ONCE: Final = 250
"""Messages that share a transaction."""
POLL: Final = 10.0
"""Seconds between two passes if nothing wakes the router."""
BUSY: Final = 1.0
"""The same while messages wait for something that causes no event, such as a free path in an inbox."""


@dataclass(slots=True)
class RouterReport:
    """The counts and problems of a pass."""

    accepted: int = 0
    delivered: int = 0
    superseded: int = 0
    duplicate: int = 0
    dead: int = 0
    collected: int = 0
    """The number of control files that were taken in."""
    in_flight: int = 0
    """Messages that are accepted and could not be delivered yet."""
    waiting: int = 0
    """Messages that stay in their outbox, because their plan is halted or unknown."""
    left: int = 0
    """Messages beyond the limit of one pass. The next pass should follow at once."""
    plans: list[str] = field(default_factory=list)
    halted: dict[str, str] = field(default_factory=dict)
    """Plan → why it is halted: its files contradict each other. Its messages wait until that is repaired."""
    problems: list[dict[str, str]] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.accepted or self.delivered or self.superseded or self.duplicate or self.dead or self.collected)

    @property
    def pause(self) -> float:
        """Seconds until the next pass, unless something wakes the router."""
        if self.left and not self.idle:
            return 0.0
        return BUSY if self.in_flight else POLL

    def as_json(self) -> dict[str, object]:
        """Return the report as JSON."""
        return asdict(self)

    def add(self, later: RouterReport) -> None:
        """Add a later pass. Its counts of waiting messages replace the present ones, since they describe a state."""
        for name in ("accepted", "delivered", "superseded", "duplicate", "dead", "collected"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.in_flight, self.waiting, self.left, self.halted = later.in_flight, later.waiting, later.left, later.halted
        self.plans += [plan_id for plan_id in later.plans if plan_id not in self.plans]
        self.problems += [problem for problem in later.problems if problem not in self.problems]

    def count(self, fate: AdmissionOutcome) -> None:
        """Count a message."""
        setattr(self, fate, getattr(self, fate) + 1)

    def add_problem(self, error: AgentTalkError) -> None:
        """Add a problem for people; the pass continues."""
        self.problems.append({"code": str(error.code), "message": error.message, "hint": error.hint})


class Router:
    """Routes the messages of a root. One router runs at a time; the store prevents double work if two should run."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._plans = PlanRegistry(deps)
        self._shown: published_files.StatusMarks = {}
        self._quiet = UnchangedFolders()
        self._standing = StandingFiles(deps)
        self._declined = DeclineCollector(deps)

    async def run_once(self) -> RouterReport:
        """Pass until nothing is left that a pass can do now."""
        total = later = await self.pass_()
        while not later.pause:
            later = await self.pass_()
            total.add(later)
        return total

    async def pass_(self) -> RouterReport:
        """Run one pass over all outboxes and boards."""
        report = RouterReport()
        agents = sorted(await self._plans.refresh_agents())
        outboxes = await asyncio.to_thread(
            outbox_reader.read_outboxes, self._deps.root, agents, self._quiet, self._standing.keys
        )
        plans = await self._plans.refresh(outboxes.files)
        report.halted = {plan_id: plan.halted for plan_id, plan in sorted(plans.items()) if plan.halted is not None}
        for name in sorted(VIRTUAL & outboxes.files.keys()):
            try:
                plans[name] = await self._plans.build_virtual_plan(name)
            except MachineError as error:  # this board's messages wait, the others continue
                report.add_problem(error)
                report.waiting += len(outboxes.files.pop(name))
        # A crash may have left files in the outbox that were taken in. Move them away first: a file that is still there
        # is skipped below by its key, so that it does not come in a second time.
        leaving = await self._clear(await list_boards(self._deps), report)
        for trouble in outboxes.troubles:
            await self._report_problem(trouble, plans, report)
        for plan_id, files in sorted(outboxes.files.items()):
            fresh = [file for file in files if file.key not in leaving]
            if fresh:
                await self._run_guarded(plan_id, partial(self._take_plan, plan_id, fresh, plans, report), report)
        await self._finish(report)
        return report

    async def _run_guarded(self, plan_id: str, step: Any, report: RouterReport) -> None:
        """Run a step of one plan. Its failure, of the machine or of our code, does not stop the other plans."""
        try:
            await step()
        except MachineError as error:
            LOG.warning("%s: %s", plan_id, error.message, extra={"action": "router.plan"})
            report.add_problem(error)
        except Exception:
            LOG.exception("%s could not be routed", plan_id, extra={"action": "router.plan"})
            report.add_problem(
                MachineError(Code.UNHANDLED_EXCEPTION, f"unhandled error in plan {plan_id!r}", hint=_HINT)
            )

    async def _take_plan(
        self, plan_id: str, files: list[OutboxFile], plans: dict[str, RoutedPlan], report: RouterReport
    ) -> None:
        plan = plans.get(plan_id)
        if plan is None or plan.halted is not None:
            report.waiting += len(files)
            await self._hold_unknown_plan(plan_id, plan, files)
            return
        report.plans.append(plan_id)
        if secrets := self._deps.secret_guard.secrets:
            files = await asyncio.to_thread(outbox_reader.withhold_names, self._deps.root, files, secrets)

        await self._take_messages(plan, [file for file in files if file.control is None], report)
        await self._take_controls(plan, [file for file in files if file.control is not None], report)
        await self._clear([plan.board], report)

    async def _hold_unknown_plan(self, plan_id: str, plan: RoutedPlan | None, files: list[OutboxFile]) -> None:
        """Hold the messages of an unknown plan, with one alert for each sender."""
        if plan is not None:
            return
        at = self._deps.stamp()
        board = (await list_boards(self._deps))[0]

        def work(tx: Tx) -> None:
            tx.run(ADD_PLAN, plan_id=UNROUTED, origin="virtual")
            for agent_id in sorted({each.agent_id for each in files}):
                records.alert(
                    tx,
                    at=at,
                    plan_id=UNROUTED,
                    code=Code.NAME_UNKNOWN,
                    message=f"messages of {agent_id} for {plan_id!r} wait: that plan has no {root_layout.DAG}",
                    key=f"{agent_id}/{plan_id}",
                    severity="WARNING",
                    source=RecordSource(agent_id),
                )

        await board.transact(work)

    async def _take_messages(self, plan: RoutedPlan, files: list[OutboxFile], report: RouterReport) -> None:
        most = self._deps.limits.messages_per_pass
        report.left += max(0, len(files) - most)
        arrivals = await asyncio.to_thread(self._read, files[:most], report)
        blobs = await self._deps.stores.blobs(plan.board.name)
        arrivals = incoming_file.sort_for_judging(arrivals)
        for start in range(0, len(arrivals), AT_ONCE):
            batch = await self._load(blobs, plan, arrivals[start : start + AT_ONCE], report)
            for fate in await self._judge(plan, batch):
                report.count(fate)

    async def _load(
        self, blobs: Blobs, plan: RoutedPlan, arrivals: list[IncomingFile], report: RouterReport
    ) -> list[IncomingFile]:
        """Load the payloads of messages. One whose payload the machine cannot read now waits for the next pass."""
        loaded = []
        for arrival in arrivals:
            try:
                loaded.append(
                    await incoming_file.load_payloads(self._deps, blobs, arrival, plan)
                    if _needs_files(arrival)
                    else arrival
                )
            except MachineError as error:
                report.add_problem(error)
        return loaded

    def _read(self, files: list[OutboxFile], report: RouterReport) -> list[IncomingFile]:
        arrivals = []
        for file in files:
            try:
                arrival = incoming_file.read_incoming(self._deps, file)
            except MachineError as error:
                report.add_problem(error)
            else:
                arrivals += [arrival] if arrival else []
        return arrivals

    async def _judge(self, plan: RoutedPlan, batch: list[IncomingFile]) -> list[AdmissionOutcome]:
        """Judge a batch in one transaction. If our own code fails on it, judge each message in its own transaction."""
        at = self._deps.stamp()
        work = partial(_take_in, batch=batch, plan=plan, deps=self._deps, at=at)
        try:
            return await plan.board.transact(work)
        except MachineError:
            raise
        except Exception:  # a message that our code cannot judge must not block the others, nor come back in each pass
            LOG.exception("a message could not be judged", extra={"action": "router.judge"})
            if len(batch) > 1:
                return [fate for arrival in batch for fate in await self._judge(plan, [arrival])]
            return [await plan.board.transact(partial(_fault, arrival=batch[0], at=at))]

    async def _take_controls(self, plan: RoutedPlan, files: list[OutboxFile], report: RouterReport) -> None:
        if not files:
            return
        contents = await asyncio.to_thread(self._read_controls, files, report)
        read: list[ReadControlFile] = [
            (file, *(await self._with_files(plan, file, content))) for file, content in contents
        ]
        for start in range(0, len(read), AT_ONCE):
            batch = read[start : start + AT_ONCE]
            taken = await self._collect(plan, batch)
            report.collected += sum(
                outcome == "new" or (outcome == "same" and not control_files.stays_in_outbox(file.control))
                for (file, *_), outcome in zip(batch, taken, strict=True)
            )
            report.dead += taken.count("dead")
            self._standing.remember(batch, taken)
        await self._standing.clear_receipts(plan)

    def _read_controls(
        self, files: list[OutboxFile], report: RouterReport
    ) -> list[tuple[OutboxFile, tuple[bytes, ControlFile | Rejection]]]:
        contents = []
        for file in files:
            try:
                content = control_files.read_control_file(self._deps, file)
            except MachineError as error:
                report.add_problem(error)
            else:
                contents += [(file, content)] if content else []
        return contents

    async def _collect(self, plan: RoutedPlan, batch: list[ReadControlFile]) -> list[CollectOutcome]:
        """Collect a batch of control files, as `_judge` does with messages."""
        at = self._deps.stamp()
        try:
            return await plan.board.transact(partial(_collect, batch=batch, plan=plan, deps=self._deps, at=at))
        except MachineError:
            raise
        except Exception:
            LOG.exception("a control file could not be taken in", extra={"action": "router.collect"})
            if len(batch) > 1:
                return [taken for item in batch for taken in await self._collect(plan, [item])]
            failed: list[ReadControlFile] = [(*batch[0][:2], incoming_file.INTERNAL_FAULT)]
            return await plan.board.transact(partial(_collect, batch=failed, plan=plan, deps=self._deps, at=at))

    async def _with_files(
        self, plan: RoutedPlan, found: OutboxFile, content: tuple[bytes, ControlFile | Rejection]
    ) -> tuple[bytes | str | None, ControlFile | Rejection]:
        """Store the files of a person's answer, which are beside it in the gateway's outbox."""
        data, document = content
        blobs = await self._deps.stores.blobs(plan.board.name)
        if isinstance(document, Rejection):
            return data or await incoming_file.keep_original(self._deps, blobs, found), document
        if not isinstance(document.document, HumanInterventionResponse):
            return content
        try:
            for file in document.document.provided_files:
                payload = await incoming_file.load_payload(self._deps, blobs, found, file.name, file.sha256)
                if payload is not None:
                    await blobs.put(payload)
        except InputError as error:
            return data, Rejection(error.code, error.message)
        return content

    async def _clear(self, stores: list[Store], report: RouterReport) -> set[str]:
        """Move files away that were taken in. Returns the keys of all, also of files that could not be moved."""
        keys: set[str] = set()
        for board in stores:
            gone = []
            stuck: list[tuple[OutboxRemoval, InputError]] = []
            leavings = [_read_removal(row) for row in await board.read(LEAVINGS)]
            keys.update(leaving.key for leaving in leavings)
            secrets = self._deps.secret_guard.secrets
            errors = await asyncio.to_thread(_clear, self._deps.root, leavings, secrets) if leavings else []
            for leaving, error in zip(leavings, errors, strict=True):
                if error is None:
                    gone.append(leaving.id)
                elif isinstance(error, InputError):
                    stuck.append((leaving, error))
                else:
                    report.add_problem(error)
            if gone or stuck:
                await board.transact(partial(_record_removals, gone=gone, stuck=stuck, at=self._deps.stamp()))
        return keys

    async def _report_problem(self, trouble: OutboxProblem, plans: dict[str, RoutedPlan], report: RouterReport) -> None:
        """Dead-letter a misleading folder once; raise an alert for one that the file system refuses."""
        if isinstance(trouble.error, MachineError):
            report.add_problem(trouble.error)
            return
        plan = plans.get(trouble.plan_id)
        board = plan.board if plan else (await list_boards(self._deps))[0]
        refused = RefusedMessage(
            plan_id=trouble.plan_id if plan else UNROUTED,
            agent_id=trouble.agent_id,
            box="outbox",
            name=trouble.where,
            key=f"{trouble.agent_id}/{trouble.where}",
            code=Code(trouble.error.code),
            reason=trouble.error.message,
        )
        at = self._deps.stamp()

        def work(tx: Tx) -> bool:
            tx.run(ADD_PLAN, plan_id=UNROUTED, origin="virtual")
            return records.write_dead_letter(tx, refused, at=at)

        report.dead += int(await board.transact(work))

    async def _finish(self, report: RouterReport) -> None:
        """Deliver, recall, publish, and check that every message is in exactly one place."""
        for board in await list_boards(self._deps):
            for (plan_id,) in await board.read(PLANS_UNDER_WAY):
                await self._run_guarded(plan_id, partial(self._deliver, board, plan_id, report), report)
                report.in_flight += (await board.read(IN_FLIGHT, plan_id=plan_id))[0].messages
            await delivery.withdraw(self._deps, board)
            report.dead += await self._declined.collect(board)
            for (plan_id,) in await board.read(UNBALANCED_PLANS):
                await check_conservation(board, plan_id, self._deps.stamp())
            for plan in await board.read(PLANS):
                if plan.plan_id in report.plans or self._shown.get(plan.plan_id, ("", 0))[0] != plan.dag_sha256:
                    await published_files.publish_status(self._deps, board, plan.plan_id, self._shown)
            try:
                await published_files.publish(self._deps, board)
            except AgentTalkError as error:
                report.add_problem(error)

    async def _deliver(self, board: Store, plan_id: str, report: RouterReport) -> None:
        halted = (await board.read(PLAN, plan_id=plan_id))[0].halted
        if halted is None:
            report.delivered += await delivery.deliver(self._deps, board, plan_id)


async def check_conservation(board: Store, plan_id: str, at: str) -> int:
    """Check sent = delivered + superseded + duplicate + dead + in flight. Returns the number of missing messages."""
    [plan] = await board.read(PLAN, plan_id=plan_id)
    [in_flight] = await board.read(IN_FLIGHT, plan_id=plan_id)
    if not _tally(plan, in_flight.messages).lost:
        return 0
    # A delivery between the two reads looks like a lost message. A transaction sees both at one moment.
    return await board.transact(partial(_check_sum, plan_id=plan_id, at=at))


def _check_sum(tx: Tx, plan_id: str, at: str) -> int:
    [plan] = tx.run(PLAN, plan_id=plan_id)
    [in_flight] = tx.run(IN_FLIGHT, plan_id=plan_id)
    tally = _tally(plan, in_flight.messages)
    if tally.lost:
        records.alert(
            tx,
            at=at,
            plan_id=plan_id,
            code=Code.MESSAGE_LOST,
            message=f"{tally.lost} of {tally.sent} messages are in no state; run 'agenttalk fsck'",
            key=f"{tally}",
            severity="CRITICAL",
            details=asdict(tally),
        )
    return tally.lost


def _tally(plan: PlanRow, in_flight: int) -> MessageTally:
    return MessageTally(plan.sent, plan.delivered, plan.superseded, plan.duplicate, plan.dead, in_flight)


def _needs_files(arrival: IncomingFile) -> bool:
    return isinstance(arrival.parcel, Rejection) or arrival.order is None


def _take_in(tx: Tx, batch: list[IncomingFile], plan: RoutedPlan, deps: Deps, at: str) -> list[AdmissionOutcome]:
    return [admission.admit_message(tx, arrival, plan, deps, at) for arrival in batch]


def _fault(tx: Tx, arrival: IncomingFile, at: str) -> AdmissionOutcome:
    return admission.bury(tx, arrival, incoming_file.INTERNAL_FAULT, at)


def _collect(tx: Tx, batch: list[ReadControlFile], plan: RoutedPlan, deps: Deps, at: str) -> list[CollectOutcome]:
    return [
        control_files.collect_control_file(tx, file, data, document, plan, deps, at) for file, data, document in batch
    ]


def _clear(root: Folder, leavings: list[OutboxRemoval], secrets: Secrets) -> list[InputError | MachineError | None]:
    return [outbox_reader.remove_from_outbox(root, leaving, secrets) for leaving in leavings]


def _read_removal(row: LeavingRow) -> OutboxRemoval:
    paths: Any = wire.read(bytes(row.payloads)) if row.payloads else ()
    return OutboxRemoval(**{**row._asdict(), "payloads": tuple(paths)})


def _record_removals(tx: Tx, gone: list[int], stuck: list[tuple[OutboxRemoval, InputError]], at: str) -> None:
    """Forget removed files. Raise one alert for an outbox that lets nothing out."""
    for number in gone:
        tx.run(LEFT, id=number)
    for leaving, error in stuck:
        records.alert(
            tx,
            at=at,
            plan_id=leaving.plan_id,
            code=error.code,
            message=f"{leaving.name} was taken in, but cannot leave the outbox of {leaving.agent_id}: {error.message}",
            key=f"leave/{leaving.agent_id}/{leaving.target}",
            severity="WARNING",
            source=RecordSource(leaving.agent_id),
        )
