"""Checks that verifiers make: what they are asked, and what serves them the tree and the files of a check."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from agenttalk.adapters.checking.checker import Checker, CheckFacts
from agenttalk.adapters.checking.command import CheckContext
from agenttalk.adapters.proving.proof_checkouts import CheckoutOpener, FileCheckouts, TreeCheckouts
from agenttalk.adapters.workspaces.transport.fetch_request import decompress, read_fetch_request
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.promise import AnyCheck
from agenttalk.contracts.worker import CheckGround, CheckOrder, OrderedFile, OrderedTree
from agenttalk.ports.agents import Job
from agenttalk.ports.storage import Clock
from agenttalk.ports.verification import CheckRequest, CheckSubject, Verifiers
from agenttalk.rules.fleet.verification import hash_subject, write_crossed, write_outcomes
from agenttalk.rules.fleet.verify_policy import VerifyPolicy
from agenttalk.rules.proof import evidence
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.rules.text import check_words

NOBODY = CheckSubject("", "", "", 0, "", is_elsewhere=False)


class VerifiedChecks:
    """Has verifiers make the checks of the prover."""

    def __init__(
        self, verifiers: Verifiers, policy: VerifyPolicy, checker: Checker, context: CheckContext, clock: Clock
    ) -> None:
        self._verifiers = verifiers
        self._policy = policy
        self._checker = checker
        self._context = context
        self._clock = clock

    @property
    def place(self) -> str:
        """Return what results rest on besides the tree."""
        return self._policy.place

    async def check(
        self,
        check: AnyCheck,
        facts: CheckFacts,
        checkout: CheckoutOpener,
        own: Mapping[str, bytes],
        job: Job | None,
        key: str,
    ) -> CheckResult:
        """Have a check made. `own` files replace those of the checkout; `job` is whose work it is about."""
        now = self._clock.now()
        fingerprint = await self._checker.fingerprint(check, facts, self._context)
        about = CheckResult(check.id, False, evidence.trust_of(check), "fault", "", now, now, fingerprint)
        subject = _subject_of(job)
        source = SealedSource(checkout, own)
        order = CheckOrder(
            subject=hash_subject(*subject[:4]),
            check=check,
            ground=_describe_ground(facts),
            tree=source.tree,
            files=source.files,
            own=source.own,
            sandbox=self._context.sandbox,
            isolation=self._context.isolation,
            network=self._context.network,
            prepare_network=self._context.prepare_network,
        )

        def waits() -> None:
            if job is not None:
                job.enter("for_verifier", check.id)

        def begins() -> None:
            if job is not None:
                job.enter("baseline" if facts.before_work else "checking", check.id)

        def count(done: int | None, total: int | None) -> None:
            if job is not None and job.watch is not None:
                job.watch.count_tests(done, total)

        request = CheckRequest(subject, order, source, about, facts.base, key, waits, begins, count)
        return await self._verifiers.verify(request)


class UnservedVerifiers:
    """Stands for verifiers where no engine runs that could ask them. Implements `Verifiers`."""

    async def verify(self, request: CheckRequest) -> CheckResult:
        """Raise UsageError: nothing is made here in their place."""
        why = check_words.NO_VERIFICATION(why=request.about.id)
        raise UsageError(Code.ENGINE_UNREACHABLE, str(why), hint="start 'agenttalk serve', which verifiers can reach")


class SealedSource:
    """Serves the tree and the files of one check. Implements `CheckSource`."""

    def __init__(self, checkout: CheckoutOpener, own: Mapping[str, bytes]) -> None:
        self._space = checkout.space if isinstance(checkout, TreeCheckouts) else None
        self._commit = checkout.commit if isinstance(checkout, TreeCheckouts) else ""
        files = checkout.files if isinstance(checkout, FileCheckouts) else {}
        self._contents = {wire.sha256(data): data for data in (*files.values(), *own.values())}
        self.files = _list_files(files)
        self.own = _list_files(own)
        self.tree = None
        if isinstance(checkout, TreeCheckouts):
            ref = f"refs/heads/{checkout.space.branch}"
            self.tree = OrderedTree(ref=ref, commit=checkout.commit, tree=checkout.tree)

    async def advertise(self) -> bytes:
        """Return the one ref; see the port."""
        if self._space is None:
            raise UsageError(Code.NOT_ALLOWED, "this check has no repository")
        return await self._space.uploads.advertise(self._commit)

    async def serve(self, body: bytes, coding: str) -> AsyncGenerator[bytes, None]:
        """Answer a request of git; see the port."""
        if self._space is None:
            raise UsageError(Code.NOT_ALLOWED, "this check has no repository")
        request = read_fetch_request(decompress(body, coding), self._commit)
        async for piece in self._space.uploads.stream(self._commit, request):
            yield piece

    async def read(self, sha256: str) -> bytes:
        """Read a file; see the port."""
        if sha256 not in self._contents:
            raise UsageError(Code.NAME_UNKNOWN, "this check has no such file")
        return self._contents[sha256]


def _subject_of(job: Job | None) -> CheckSubject:
    if job is None:
        return NOBODY
    profile = job.profile
    return CheckSubject(job.board, job.plan_id, job.task_id, job.epoch, job.agent_id, profile.is_elsewhere)


def _list_files(files: Mapping[str, bytes]) -> tuple[OrderedFile, ...]:
    return tuple(
        OrderedFile(path=path, sha256=wire.sha256(data), size=len(data)) for path, data in sorted(files.items())
    )


def _describe_ground(facts: CheckFacts) -> CheckGround:
    return CheckGround(
        tree=facts.tree,
        covered=dict(facts.covered),
        files=dict(facts.files),
        inputs=dict(facts.inputs),
        base=write_outcomes(facts.base),
        base_source=facts.base_source,
        before_work=facts.before_work,
        judged=facts.judged,
        crossed=write_crossed(facts.crossed),
        changed=facts.changed,
        protected=facts.protected,
        tier=facts.tier,
        required=facts.required,
        standing=tuple(sorted(facts.standing)),
    )
