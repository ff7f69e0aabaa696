"""What checks found, as JSON: told to people, or kept so that it can be read again."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Final

from agenttalk.contracts.core.base import format_instant, parse_instant
from agenttalk.rules.proof.evidence import ENGINE, CheckResult, Fingerprint, Screenshot, VerifierSeal
from agenttalk.rules.suites.crossing import CrossedTests
from agenttalk.rules.suites.outcomes import Outcomes
from agenttalk.rules.text.catalogue import read_text, with_messages

_TAIL: Final = 4_000
"""Characters of what a check printed that the ledger keeps."""


def to_json(result: CheckResult) -> dict[str, Any]:
    """Convert a check's result to JSON, for people and the ledger."""
    body: dict[str, Any] = {
        "id": result.id,
        "kind": result.fingerprint.check.get("kind"),
        "passed": result.passed,
        "trust": result.trust,
        "reason": result.reason or None,
        **with_messages({"detail": result.detail or None}),
        "seconds": round((result.ended - result.started).total_seconds(), 3),
        "tree": result.fingerprint.tree or None,
        "exit_code": result.exit_code,
        "command": result.fingerprint.check.get("run") or result.fingerprint.check.get("serve"),
        "output": result.output[-_TAIL:] or None,
        "output_sha256": result.output_sha256 or None,
        "flaky": list(result.flaky) or None,
        "hidden": result.hidden or None,
        "weak": result.weak or None,
        "isolated": result.isolated,
        "source": result.source or None,
        "crossed": len(result.crossed.passed) if result.crossed is not None else None,
        "by": result.by if result.by != ENGINE else None,
        "seen_at": result.seen_at or None,
        "seen_for": result.seen_for or None,
        "pictures": [_picture_to_json(picture) for picture in result.pictures] or None,
        "seals": [asdict(seal) for seal in result.seals] or None,
    }
    return {key: value for key, value in body.items() if value is not None}


def _picture_to_json(picture: Screenshot) -> dict[str, Any]:
    return {"name": picture.name, "sha256": picture.sha256, "size": picture.size}


def to_record(result: CheckResult) -> dict[str, Any]:
    """Convert a result with its fingerprint to JSON: a later change of the fingerprint makes it stale."""
    return {**to_json(result), "by": result.by, "fingerprint": fingerprint_to_json(result.fingerprint)}


def fingerprint_to_json(of: Fingerprint) -> dict[str, Any]:
    """Convert a result's fingerprint to JSON."""
    return {
        "check": dict(of.check),
        "tree": of.tree,
        "covered": dict(of.covered),
        "files": dict(of.files),
        "inputs": dict(of.inputs),
        "argv": list(of.argv),
        "isolated": of.isolated,
        "network": of.network,
        "base": of.base,
        "harness": of.harness,
        "place": of.place,
    }


def read_fingerprint(said: dict[str, Any]) -> Fingerprint:
    """Read the JSON of `fingerprint_to_json`."""
    return Fingerprint(
        said["check"],
        said["tree"],
        said["covered"],
        said["files"],
        said["inputs"],
        tuple(said["argv"]),
        said["isolated"],
        said["network"],
        said["base"],
        said["harness"],
        said["place"],
    )


def to_cache_entry(result: CheckResult) -> dict[str, Any]:
    """Convert a result to JSON for `read_cache_entry`, without its weakness."""
    return {
        "id": result.id,
        "passed": result.passed,
        "trust": result.trust,
        "reason": result.reason,
        **with_messages({"detail": result.detail}),
        "started": format_instant(result.started),
        "ended": format_instant(result.ended),
        "fingerprint": fingerprint_to_json(result.fingerprint),
        "exit_code": result.exit_code,
        "output": result.output[-_TAIL:],
        "output_sha256": result.output_sha256,
        "output_bytes": result.output_bytes,
        "tests": _tests(result.tests) if result.tests is not None else None,
        "flaky": list(result.flaky),
        "isolated": result.isolated,
        "source": result.source,
        "crossed": _crossed(result.crossed) if result.crossed is not None else None,
        "by": result.by,
        "pictures": [_picture_to_json(picture) for picture in result.pictures],
        "seals": [asdict(seal) for seal in result.seals],
    }


def read_cache_entry(said: dict[str, Any]) -> CheckResult:
    """Read the JSON of `to_cache_entry`."""
    tests, crossed = said["tests"], said["crossed"]
    return CheckResult(
        said["id"],
        said["passed"],
        said["trust"],
        said["reason"],
        read_text(said, "detail"),
        parse_instant(said["started"]),
        parse_instant(said["ended"]),
        read_fingerprint(said["fingerprint"]),
        exit_code=said["exit_code"],
        output=said["output"],
        output_sha256=said["output_sha256"],
        output_bytes=said["output_bytes"],
        tests=_read_tests(tests) if tests is not None else None,
        flaky=tuple(said["flaky"]),
        isolated=said["isolated"],
        source=said["source"],
        crossed=_read_crossed(crossed) if crossed is not None else None,
        by=said["by"],
        pictures=tuple(Screenshot(**picture) for picture in said["pictures"]),
        seals=tuple(VerifierSeal(**seal) for seal in said.get("seals", ())),
    )


def reuse_result(said: dict[str, Any], check_id: str, *, at: str, made_for: str) -> CheckResult:
    """Reuse a kept result for an equal check; it names when and for whom it was observed."""
    return replace(read_cache_entry(said), id=check_id, seen_at=at, seen_for=made_for)


def _crossed(crossed: CrossedTests) -> dict[str, Any]:
    return {"passed": sorted(crossed.passed), "other": sorted(crossed.other), "reasons": dict(crossed.reasons)}


def _read_crossed(said: dict[str, Any]) -> CrossedTests:
    return CrossedTests(frozenset(said["passed"]), frozenset(said["other"]), said["reasons"])


def _tests(tests: Outcomes) -> dict[str, Any]:
    return {
        "passed": sorted(tests.passed),
        "failed": sorted(tests.failed),
        "skipped": sorted(tests.skipped),
        "repeated": sorted(tests.repeated),
        "beyond": tests.beyond,
        "whys": sorted(tests.whys),
    }


def _read_tests(said: dict[str, Any]) -> Outcomes:
    passed, failed, skipped, repeated = (frozenset(said[each]) for each in ("passed", "failed", "skipped", "repeated"))
    whys = frozenset((name, why) for name, why in said["whys"])
    return Outcomes(passed, failed, skipped, repeated, said["beyond"], whys)
