"""Performances as JSON: kept while their work is verified, and sent by workers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from agenttalk.contracts.core.base import format_instant, parse_instant
from agenttalk.ports.agents import InputContent
from agenttalk.rules.budgets.provider_limits import AccountLimit, LimitKind, ProviderLimit
from agenttalk.rules.core.task_states import TurnEnding
from agenttalk.rules.proof import evidence
from agenttalk.rules.proof.performance import OutputContent, Performance, SubmittedWork
from agenttalk.rules.proof.rework import Judgement
from agenttalk.rules.text.catalogue import read_own_text, read_text, restore_messages, with_messages

_OF_WORKERS: Final[frozenset[TurnEnding]] = frozenset(
    {"finished", "crashed", "timeout", "not_started", "unfit", "limited"}
)
"""How an attempt can end at a worker. All other endings are the engine's to say."""


def performance_to_json(performance: Performance) -> dict[str, Any]:
    """Return a performance as JSON."""
    limited = performance.limited
    return {
        "how": performance.how,
        "result": performance.result,
        "score": performance.score,
        "explanation": performance.explanation,
        "outputs": [file_to_json(each.output_name, each) for each in performance.outputs],
        "seconds": performance.seconds,
        "sandbox": performance.sandbox,
        "usage": dict(performance.usage),
        **with_messages({"misfits": performance.misfits}),
        "judgements": {name: each.as_json() for name, each in performance.judgements.items()},
        "claims": [each if isinstance(each, str) else each.as_json() for each in performance.claims],
        **(with_messages({"remark": performance.remark}) if performance.remark else {}),
        **(with_messages({"error": performance.error}) if performance.error else {}),
        **({"code": str(performance.code)} if performance.code else {}),
        **({"strayed": list(performance.strayed)} if performance.strayed else {}),
        **({"ended_badly": performance.ended_badly} if performance.ended_badly else {}),
        **({"submitted": list(performance.submitted)} if performance.submitted else {}),
        **({"limited": _limit_to_json(limited)} if limited is not None else {}),
    }


def read_performance(said: Mapping[str, Any]) -> Performance:
    """Read a performance that this engine or an earlier one stored."""
    return Performance(
        said["how"],
        result=said["result"],
        score=said["score"],
        explanation=said["explanation"],
        outputs=tuple(OutputContent(*read_file(each)) for each in said["outputs"]),
        code=said.get("code"),
        error=read_text(said, "error") if "error" in said else "",
        seconds=said["seconds"],
        sandbox=said["sandbox"],
        usage=said["usage"],
        misfits=restore_messages(said["misfits"]),
        judgements={name: Judgement.from_json(each) for name, each in said["judgements"].items()},
        limited=_read_limit(said["limited"]) if "limited" in said else None,
        claims=evidence.read_claims(said["claims"]),
        remark=read_text(said, "remark") if "remark" in said else "",
        strayed=tuple(said.get("strayed", ())),
        ended_badly=said.get("ended_badly", ""),
        submitted=SubmittedWork(*said["submitted"]) if "submitted" in said else None,
    )


def read_worker_performance(
    said: Mapping[str, Any], outputs: tuple[OutputContent, ...], submitted: SubmittedWork | None, seconds: float
) -> Performance:
    """Read a performance that a worker sent: its word about the agent, with what was handed in before.

    A performance that cannot be read is that of an attempt that crashed.
    """
    try:
        found = read_performance({**said, "outputs": [], "judgements": {}, "misfits": {}, "seconds": seconds})
    except (KeyError, TypeError, ValueError):
        return Performance("crashed", error="the result that the worker sent cannot be read", seconds=seconds)
    how = found.how if found.how in _OF_WORKERS else "crashed"
    if how == "limited" and found.limited is None:
        how = "crashed"
    error = read_own_text(said, "error") if found.error else ""
    remark = read_own_text(said, "remark") if found.remark else ""
    return replace(found, how=how, outputs=outputs, submitted=submitted, error=error, remark=remark)


def file_to_json(name: str, file: OutputContent | InputContent) -> list[Any]:
    """Return a file of an input or output as JSON."""
    data = base64.b64encode(file.data).decode() if file.data is not None else None
    return [name, file.path, file.sha256, file.size, data]


def read_file(said: list[Any]) -> tuple[str, str, str, int, bytes | None]:
    """Read the fields of a file."""
    name, path, sha256, size, data = said
    return name, path, sha256, size, base64.b64decode(data) if data is not None else None


def _limit_to_json(limited: AccountLimit) -> dict[str, str | None]:
    limit = limited.limit
    resets = format_instant(limit.resets_at) if limit.resets_at is not None else None
    return {
        "account": limited.account,
        "agent": limited.agent,
        "kind": limit.kind,
        "text": limit.text,
        "resets": resets,
    }


def _read_limit(said: Mapping[str, Any]) -> AccountLimit:
    resets = parse_instant(said["resets"]) if said["resets"] else None
    kind: LimitKind = "usage" if said["kind"] == "usage" else "overload"
    return AccountLimit(str(said["account"]), str(said["agent"]), ProviderLimit(kind, str(said["text"]), resets))
