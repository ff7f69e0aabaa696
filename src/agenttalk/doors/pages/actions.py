"""Carries out forms in the name of the logged-in person, by the use cases that the command line has, too."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.worker import WorkerState
from agenttalk.doors.pages import views
from agenttalk.doors.pages.page import PageContext
from agenttalk.doors.pages.sessions import FormResult, make_form_route
from agenttalk.engine.operation.service import Service
from agenttalk.engine.people.questions import AnswerDecision
from agenttalk.engine.runs.plan_actions import PlanAction
from agenttalk.engine.views import ledger
from agenttalk.rules.people.attestation import AnswerProof
from agenttalk.rules.text.code_words import render_refusal
from agenttalk.rules.text.page_words import FORM_ERRORS, PAGE

_DECISIONS: Final[dict[str, AnswerDecision]] = {
    "PROVIDE": "PROVIDE",
    "APPROVE": "APPROVE",
    "REJECT": "REJECT",
    "ABORT": "ABORT",
}
_STEERED: Final = frozenset({"pause", "resume", "cancel", "retry", "abort", "override", "rework"})
_SCHEDULED: Final = frozenset({"pause", "resume", "run"})
_WORKER_STATES: Final[dict[str, WorkerState]] = {"drain": "draining", "resume": "active"}
_NOTE: Final = 4_000


def routes(service: Service) -> list[Route]:
    """Return the route of every form."""
    return [
        make_form_route(service, "/plans/{id}/steer", steer),
        make_form_route(service, "/plans/{id}/verify", verify),
        make_form_route(service, "/inbox/{id}/answer", answer),
        make_form_route(service, "/deadletters/{id}/replay", replay),
        make_form_route(service, "/deliveries/{id}/replay", redeliver),
        make_form_route(service, "/toolchain/reconcile", reconcile),
        make_form_route(service, "/budget", limit_day),
        make_form_route(service, "/schedules/{id}", act_on_schedule),
        make_form_route(service, "/workers/{id}", act_on_worker),
    ]


async def steer(service: Service, request: Request, reader: PageContext, sent: FormData) -> FormResult:
    """Pause, go on, cancel, try again, stop, override, or decide on rework."""
    plan_id, action, task_id = request.path_params["id"], _text(sent, "action"), _text(sent, "task")
    if action not in _STEERED:
        raise UsageError(Code.NAME_UNKNOWN, FORM_ERRORS["plan_action"](action=repr(action[:40])))
    answer = _text(sent, "answer")
    if answer == "grant":
        answer = f"grant {_text(sent, 'rounds')}"
    wanted = PlanAction(
        name=action,
        by=_name(reader),
        proof=AnswerProof("page", _name(reader)),
        task_id=task_id or None,
        onwards=_text(sent, "onwards") == "yes",
        why=_text(sent, "why"),
        checkpoint=_text(sent, "checkpoint") or None,
        answer=answer,
    )
    await service.plans.carry_out(plan_id, wanted)
    where = f"/plans/{quote(plan_id, safe='')}" + (f"/tasks/{quote(task_id, safe='')}" if task_id else "")
    return FormResult(_done(reader, _text(sent, "label") or action), where)


async def verify(service: Service, request: Request, reader: PageContext, sent: FormData) -> FormResult:
    """Look now whether what was proven still holds."""
    plan_id, task_id = request.path_params["id"], _text(sent, "task")
    await service.plans.verify(plan_id, task_id or None, by=_name(reader))
    where = f"/plans/{quote(plan_id, safe='')}" + (f"/tasks/{quote(task_id, safe='')}" if task_id else "")
    return FormResult(_done(reader, PAGE["a_verify"].render(reader.language)), where)


async def answer(service: Service, request: Request, reader: PageContext, sent: FormData) -> FormResult | Response:
    """Answer a question: exactly the one that was shown, or none. What has changed since is shown as it is now."""
    decision = _DECISIONS.get(_text(sent, "decision"))
    seen = _text(sent, "seen_sha256")
    if decision is None or not seen:
        raise UsageError(Code.OPTION_INVALID, FORM_ERRORS["no_answer"](), hint=FORM_ERRORS["use_button"]())
    name, notes = request.path_params["id"], _text(sent, "notes")[:_NOTE]
    try:
        await service.messages.answer(
            name,
            by=_name(reader),
            proof=AnswerProof("page", _name(reader)),
            decision=decision,
            files=await _files(sent),
            answers=[str(each) for each in sent.getlist("answer") if isinstance(each, str) and each],
            notes=notes or None,
            seen_sha256=seen,
        )
    except UsageError as error:
        if error.code != Code.ANSWER_REFUSED:
            raise
        return await views.render_question(service, reader, name, 409, why_not=error, notes=notes)
    return FormResult(_done(reader, PAGE["answer"].render(reader.language)), "/inbox")


async def _files(sent: FormData) -> dict[str, bytes]:
    """Return the files that were chosen or written, by the names of the outputs."""
    found: dict[str, bytes] = {}
    for number in range(100):
        name = _text(sent, f"name_{number}")
        if not name:
            break
        chosen, written = sent.get(f"file_{number}"), sent.get(f"text_{number}")
        if isinstance(chosen, UploadFile) and chosen.filename:
            found[name] = await chosen.read()
        elif isinstance(written, str) and written:
            found[name] = written.replace("\r\n", "\n").encode("utf-8", "replace")
    return found


async def replay(service: Service, request: Request, reader: PageContext, _: FormData) -> FormResult:
    """Judge a dead letter again."""
    name = request.path_params["id"]
    outcome = await service.messages.replay(name, by=_name(reader))
    if outcome["ok"]:
        told = _done(reader, outcome.get("fate"))
    else:
        why = render_refusal(reader.language, outcome["code"]) or outcome["reason"]
        told = PAGE["refused_it"].render(reader.language, what=why)
    return FormResult(told, f"/deadletters/{quote(name, safe='')}")


async def redeliver(service: Service, request: Request, reader: PageContext, _: FormData) -> FormResult:
    """Decide again about a delivery that failed."""
    await ledger.replay_webhook(service.deps, request.path_params["id"], by=_name(reader))
    service.receiver.wake()
    return FormResult(_done(reader, PAGE["a_replay"].render(reader.language)), "/deliveries")


async def reconcile(service: Service, _: Request, reader: PageContext, __: FormData) -> FormResult:
    """Read the forges now."""
    await service.reconcile(dry_run=False, by=_name(reader))
    return FormResult(_done(reader, PAGE["reconcile"].render(reader.language)), "/toolchain")


async def act_on_schedule(service: Service, request: Request, reader: PageContext, sent: FormData) -> FormResult:
    """Pause, resume or run a schedule."""
    action = _text(sent, "action")
    if action not in _SCHEDULED:
        raise UsageError(Code.NAME_UNKNOWN, FORM_ERRORS["schedule_action"](action=repr(action[:40])))
    await service.scheduling.apply_action(request.path_params["id"], action, by=_name(reader))
    return FormResult(_done(reader, _text(sent, "label") or action), "/schedules")


async def act_on_worker(service: Service, request: Request, reader: PageContext, sent: FormData) -> FormResult:
    """Drain a worker, or give it work again."""
    action = _text(sent, "action")
    if action not in _WORKER_STATES:
        raise UsageError(Code.NAME_UNKNOWN, FORM_ERRORS["worker_action"](action=repr(action[:40])))
    state = _WORKER_STATES[action]
    await service.fleet.workers.set_state(request.path_params["id"], state, by=_name(reader))
    service.fleet.wake()
    return FormResult(_done(reader, _text(sent, "label") or action), "/workers")


async def limit_day(service: Service, _: Request, reader: PageContext, sent: FormData) -> FormResult:
    """Change what a day may cost."""
    said = _text(sent, "limit_usd")
    try:
        most = float(said) if said else None
    except ValueError:
        raise UsageError(Code.FIELD_VALUE, FORM_ERRORS["no_amount"](text=repr(said[:40]))) from None
    await service.day.set_limit(most, by=_name(reader), reset=_text(sent, "reset") == "yes")
    return FormResult(_done(reader, PAGE["day_limit"].render(reader.language)), "/")


def _done(reader: PageContext, what: object) -> str:
    return PAGE["done_it"].render(reader.language, what=what)


def _text(sent: FormData, name: str) -> str:
    value = sent.get(name)
    return value.strip() if isinstance(value, str) else ""


def _name(reader: PageContext) -> str:
    return reader.session.name if reader.session is not None else ""
