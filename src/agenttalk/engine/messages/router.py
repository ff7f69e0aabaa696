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
from agenttalk.engine.messages import admission, control_files, delivery, incoming, outbox_reader, published_files
from agenttalk.engine.messages.admission import AdmissionOutcome
from agenttalk.engine.messages.control_files import CollectOutcome
from agenttalk.engine.messages.declined_messages import DeclineCollector
from agenttalk.engine.messages.incoming import IncomingFile
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
)
from agenttalk.ports.storage import Blobs, Store, Tx
from agenttalk.rules.core.redaction import Secrets
from agenttalk.rules.messages.control_files import ControlFile
from agenttalk.rules.messages.routing import MessageTally, Rejection

LOG = logging.getLogger(__name__)
_HINT: Final = "the log says how; please report it"
AT_ONCE: Final = 250
"""Messages that share a transaction."""
POLL: Final = 10.0
"""Seconds after which a router looks again, whether or not anything woke it."""
BUSY: Final = 1.0
"""The same while something waits that no event will announce."""


@dataclass(slots=True)
class RouterReport:
    """What a pass did."""

    accepted: int = 0
    delivered: int = 0
    superseded: int = 0
    duplicate: int = 0
    dead: int = 0
    collected: int = 0
    """Control files."""
    in_flight: int = 0
    """Messages that are accepted and could not be delivered yet."""
    waiting: int = 0
    """Messages that stay in their outbox, because their plan is halted or unknown."""
    left: int = 0
    """Messages that were too many for one pass: the next one should follow at once."""
    plans: list[str] = field(default_factory=list)
    halted: dict[str, str] = field(default_factory=dict)
    """Plans whose files contradict each other, and how: nothing of theirs moves until that is repaired."""
    problems: list[dict[str, str]] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.accepted or self.delivered or self.superseded or self.duplicate or self.dead or self.collected)

    @property
    def pause(self) -> float:
        """How long the next pass may wait, unless something wakes it."""
        if self.left and not self.idle:
            return 0.0
        return BUSY if self.in_flight else POLL

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)

    def add(self, later: RouterReport) -> None:
        """Count what a later pass did; how it left things replaces how this one left them."""
        for name in ("accepted", "delivered", "superseded", "duplicate", "dead", "collected"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.in_flight, self.waiting, self.left, self.halted = later.in_flight, later.waiting, later.left, later.halted
        self.plans += [plan_id for plan_id in later.plans if plan_id not in self.plans]
        self.problems += [problem for problem in later.problems if problem not in self.problems]

    def add_problem(self, error: AgentTalkError) -> None:
        """Something that a person should see; the pass goes on."""
        self.problems.append({"code": str(error.code), "message": error.message, "hint": error.hint})


class Router:
    """Routes the messages of a root. One at a time; the store keeps two from doing the same twice."""

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
        """Look at everything once."""
        report = RouterReport()
        agents = sorted(await self._plans.refresh_agents())
        found = await asyncio.to_thread(
            outbox_reader.read_outboxes, self._deps.root, agents, self._quiet, self._standing.keys
        )
        plans = await self._plans.refresh(found.files)
        report.halted = {plan_id: plan.halted for plan_id, plan in sorted(plans.items()) if plan.halted is not None}
        for name in sorted(VIRTUAL & found.files.keys()):
            try:
                plans[name] = await self._plans.build_virtual_plan(name)
            except MachineError as error:  # its messages wait; those of others do not
                report.add_problem(error)
                report.waiting += len(found.files.pop(name))
        leaving = await self._clear(await list_boards(self._deps), report)
        for trouble in found.troubles:
            await self._report_problem(trouble, plans, report)
        for plan_id, files in sorted(found.files.items()):
            fresh = [each for each in files if each.key not in leaving]
            if fresh:
                await self._run_guarded(plan_id, partial(self._take_plan, plan_id, fresh, plans, report), report)
        await self._finish(report)
        return report

    async def _run_guarded(self, plan_id: str, step: Any, report: RouterReport) -> None:
        """One plan's trouble, with the machine or with a fault of ours, does not hold up the others."""
        try:
            await step()
        except MachineError as error:
            LOG.warning("%s: %s", plan_id, error.message, extra={"action": "router.plan"})
            report.add_problem(error)
        except Exception:
            LOG.exception("%s could not be routed", plan_id, extra={"action": "router.plan"})
            report.add_problem(
                MachineError(Code.UNHANDLED_EXCEPTION, f"our own code failed on plan {plan_id!r}", hint=_HINT)
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
        await self._take_messages(plan, [each for each in files if each.control is None], report)
        await self._take_controls(plan, [each for each in files if each.control is not None], report)
        await self._clear([plan.board], report)

    async def _hold_unknown_plan(self, plan_id: str, plan: RoutedPlan | None, files: list[OutboxFile]) -> None:
        """Let messages of an unknown plan wait, with one alert for each sender."""
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
        arrivals = incoming.sort_for_judging(arrivals)
        for start in range(0, len(arrivals), AT_ONCE):
            batch = await self._load(blobs, plan, arrivals[start : start + AT_ONCE], report)
            for fate in await self._judge(plan, batch):
                _count(report, fate)

    async def _load(
        self, blobs: Blobs, plan: RoutedPlan, arrivals: list[IncomingFile], report: RouterReport
    ) -> list[IncomingFile]:
        """The messages with their files. One whose file the machine will not read waits, the others go on."""
        found = []
        for each in arrivals:
            try:
                found.append(
                    await incoming.load_payloads(self._deps, blobs, each, plan) if _needs_files(each) else each
                )
            except MachineError as error:
                report.add_problem(error)
        return found

    def _read(self, files: list[OutboxFile], report: RouterReport) -> list[IncomingFile]:
        found = []
        for each in files:
            try:
                arrival = incoming.read_incoming(self._deps, each)
            except MachineError as error:
                report.add_problem(error)
            else:
                found += [arrival] if arrival else []
        return found

    async def _judge(self, plan: RoutedPlan, batch: list[IncomingFile]) -> list[AdmissionOutcome]:
        """Decide a batch in one transaction; when our own code fails on it, each message in its own."""
        at = self._deps.stamp()
        work = partial(_take_in, batch=batch, plan=plan, deps=self._deps, at=at)
        try:
            return await plan.board.transact(work)
        except MachineError:
            raise
        except Exception:
            LOG.exception("a message could not be judged", extra={"action": "router.judge"})
            if len(batch) > 1:
                return [fate for each in batch for fate in await self._judge(plan, [each])]
            return [await plan.board.transact(partial(_fault, arrival=batch[0], at=at))]

    async def _take_controls(self, plan: RoutedPlan, files: list[OutboxFile], report: RouterReport) -> None:
        if not files:
            return
        found = await asyncio.to_thread(self._read_controls, files, report)
        read: list[ReadControlFile] = [(each, *(await self._with_files(plan, each, said))) for each, said in found]
        for start in range(0, len(read), AT_ONCE):
            batch = read[start : start + AT_ONCE]
            taken = await self._collect(plan, batch)
            report.collected += sum(
                how == "new" or (how == "same" and not control_files.stays_in_outbox(each[0].control))
                for each, how in zip(batch, taken, strict=True)
            )
            report.dead += taken.count("dead")
            self._standing.remember(batch, taken)
        await self._standing.clear_receipts(plan)

    def _read_controls(
        self, files: list[OutboxFile], report: RouterReport
    ) -> list[tuple[OutboxFile, tuple[bytes, ControlFile | Rejection]]]:
        found = []
        for each in files:
            try:
                said = control_files.read_control_file(self._deps, each)
            except MachineError as error:
                report.add_problem(error)
            else:
                found += [(each, said)] if said else []
        return found

    async def _collect(self, plan: RoutedPlan, batch: list[ReadControlFile]) -> list[CollectOutcome]:
        """As `_judge`, for control files."""
        at = self._deps.stamp()
        try:
            return await plan.board.transact(partial(_collect, batch=batch, plan=plan, deps=self._deps, at=at))
        except MachineError:
            raise
        except Exception:
            LOG.exception("a control file could not be taken in", extra={"action": "router.collect"})
            if len(batch) > 1:
                return [taken for each in batch for taken in await self._collect(plan, [each])]
            failed: list[ReadControlFile] = [(*batch[0][:2], incoming.INTERNAL_FAULT)]
            return await plan.board.transact(partial(_collect, batch=failed, plan=plan, deps=self._deps, at=at))

    async def _with_files(
        self, plan: RoutedPlan, found: OutboxFile, said: tuple[bytes, ControlFile | Rejection]
    ) -> tuple[bytes | str | None, ControlFile | Rejection]:
        """A person's answer by hand brings its files along in the gateway's outbox."""
        data, document = said
        blobs = await self._deps.stores.blobs(plan.board.name)
        if isinstance(document, Rejection):
            return data or await incoming.keep_original(self._deps, blobs, found), document
        if not isinstance(document.document, HumanInterventionResponse):
            return said
        try:
            for file in document.document.provided_files:
                content = await incoming.load_payload(self._deps, blobs, found, file.name, file.sha256)
                if content is not None:
                    await blobs.put(content)
        except InputError as error:
            return data, Rejection(error.code, error.message)
        return said

    async def _clear(self, stores: list[Store], report: RouterReport) -> set[str]:
        """Move files away that were taken in; the keys of all of them, also of those that would not move."""
        keys: set[str] = set()
        for board in stores:
            gone = []
            stuck: list[tuple[OutboxRemoval, InputError]] = []
            leavings = [_read_removal(*row) for row in await board.read(LEAVINGS)]
            keys.update(each.key for each in leavings)
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
        """Bring, take back, show, and count whether every message is somewhere."""
        for board in await list_boards(self._deps):
            for (plan_id,) in await board.read(PLANS_UNDER_WAY):
                await self._run_guarded(plan_id, partial(self._deliver, board, plan_id, report), report)
                report.in_flight += (await board.read(IN_FLIGHT, plan_id=plan_id))[0].messages
            await delivery.withdraw(self._deps, board)
            report.dead += await self._declined.collect(board)
            for (plan_id,) in await board.read(UNBALANCED_PLANS):
                await check_conservation(board, plan_id, self._deps.stamp())
            for plan_id, _, dag_sha256, *_ in await board.read(PLANS):
                if plan_id in report.plans or self._shown.get(plan_id, ("", 0))[0] != dag_sha256:
                    await published_files.publish_status(self._deps, board, plan_id, self._shown)
            try:
                await published_files.publish(self._deps, board)
            except AgentTalkError as error:
                report.add_problem(error)

    async def _deliver(self, board: Store, plan_id: str, report: RouterReport) -> None:
        halted = (await board.read(PLAN, plan_id=plan_id))[0].halted
        if halted is None:
            report.delivered += await delivery.deliver(self._deps, board, plan_id)


async def check_conservation(board: Store, plan_id: str, at: str) -> int:
    """Sent = delivered + superseded + duplicate + dead + in flight; return how many are missing, and raise an alert."""
    [(_, _, _, _, _, *counts)] = await board.read(PLAN, plan_id=plan_id)
    [(in_flight,)] = await board.read(IN_FLIGHT, plan_id=plan_id)
    sent, *others = counts
    if sent == sum(others) + in_flight:
        return 0
    # The two were read one after the other; only a transaction sees both at once.
    return await board.transact(partial(_check_sum, plan_id=plan_id, at=at))


def _check_sum(tx: Tx, plan_id: str, at: str) -> int:
    [(_, _, _, _, _, *counts)] = tx.run(PLAN, plan_id=plan_id)
    [(in_flight,)] = tx.run(IN_FLIGHT, plan_id=plan_id)
    sent, delivered, superseded, duplicate, dead = counts
    tally = MessageTally(sent, delivered, superseded, duplicate, dead, in_flight)
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


def _needs_files(arrival: IncomingFile) -> bool:
    return isinstance(arrival.parcel, Rejection) or arrival.order is None


def _count(report: RouterReport, fate: AdmissionOutcome) -> None:
    setattr(report, fate, getattr(report, fate) + 1)


def _take_in(tx: Tx, batch: list[IncomingFile], plan: RoutedPlan, deps: Deps, at: str) -> list[AdmissionOutcome]:
    return [admission.admit_message(tx, arrival, plan, deps, at) for arrival in batch]


def _fault(tx: Tx, arrival: IncomingFile, at: str) -> AdmissionOutcome:
    return admission.bury(tx, arrival, incoming.INTERNAL_FAULT, at)


def _collect(tx: Tx, batch: list[ReadControlFile], plan: RoutedPlan, deps: Deps, at: str) -> list[CollectOutcome]:
    return [control_files.collect_control_file(tx, found, data, said, plan, deps, at) for found, data, said in batch]


def _clear(root: Folder, leavings: list[OutboxRemoval], secrets: Secrets) -> list[InputError | MachineError | None]:
    return [outbox_reader.remove_from_outbox(root, each, secrets) for each in leavings]


def _read_removal(*row: Any) -> OutboxRemoval:
    number, plan_id, agent_id, name, inode, mtime_ns, target, reason, payloads = row
    paths: Any = wire.read(bytes(payloads)) if payloads else ()
    return OutboxRemoval(number, plan_id, agent_id, name, inode, mtime_ns, target, reason, tuple(paths))


def _record_removals(tx: Tx, gone: list[int], stuck: list[tuple[OutboxRemoval, InputError]], at: str) -> None:
    """Forget removed files. Raise one alert for an outbox that lets nothing out."""
    for each in gone:
        tx.run(LEFT, id=each)
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
