"""The page about a change: as text, Markdown, JSON, SARIF and JUnit. All say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.rules.changes import change_proof
from agenttalk.rules.changes.change_proof import ChangeProof, ChangeUnderProof
from agenttalk.rules.changes.suspicions import Suspicion
from agenttalk.rules.core import failed_tests, scope
from agenttalk.rules.text import change_words
from agenttalk.rules.text.message import render

FORMATS: Final = ("text", "markdown", "json", "sarif", "junit")
SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LINES: Final = 15
"""Lines of the output of a failed check that are shown."""
_NOTES: Final = 20
_RUNS: Final = frozenset({change_proof.CHECK, change_proof.BASE_TESTS})
"""Evidence that is a run of the check on the work."""
_BAD_IN_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_BAD_IN_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>#|@!~&])")


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """What the page tells about a change."""

    change: ChangeUnderProof
    proof: ChangeProof
    work: str
    """What was held: the working tree, a branch or a pull request."""
    head: str
    """Its commit."""
    base: str
    base_name: str = ""
    """How the base is called, where it has a name."""
    tool: str = ""
    why: str = ""
    """From what the check follows."""
    output: str = ""
    """What the check printed on the work; the end of it."""

    @property
    def title(self) -> str:
        """The verdict in one line."""
        text = change_words.TITLE_PROVEN if self.proof.proven else change_words.TITLE_NOT_PROVEN
        return text(what=self.work)

    @property
    def base_shown(self) -> str:
        """The base as people know it."""
        return f"{self.base_name} ({self.base[:10]})" if self.base_name else self.base[:10]


def write_text(report: ChangeReport, locale: Locale = "en") -> str:
    """Write the page for a terminal."""
    proof = report.proof
    lines = [f"{'✓' if proof.proven else '✗'} {render(report.title, locale)}"]
    about = change_words.CHANGED_FILES(count=len(report.change.files), base=report.base_shown)
    lines += [f"  {render(about, locale)}", f"  $ {_one_line(report.change.check.run)}", ""]
    for each in proof.evidence:
        lines.append(f"  {'✓' if each.passed else '✗'} {change_proof.describe_evidence(each.id).render(locale)}")
        if each.detail:
            lines.append(f"      {_one_line(render(each.detail, locale))}")
    lines += _section(change_words.HEAD_STEPS.render(locale), [render(step, locale) for step in proof.steps], "→")
    if _output_of(report):
        lines += ["", *(f"  │ {line[-200:]}" for line in _output_of(report))]
    lines += _section(change_words.HEAD_NOTES.render(locale), list(_notes(proof, locale)), "!")
    lines += _section(
        change_words.HEAD_UNCHECKED.render(locale), [render(each, locale) for each in proof.unchecked], "·"
    )
    return "\n".join(lines) + "\n"


def _section(title: str, items: list[str], mark: str) -> list[str]:
    return ["", f"  {title}:", *(f"  {mark} {_one_line(item)}" for item in items)] if items else []


def _notes(proof: ChangeProof, locale: Locale) -> Iterator[str]:
    noted = [each for each in proof.suspicions if not each.refuses]
    for each in noted[:_NOTES]:
        yield f"{_place(each)}: {each.message.render(locale)} [{each.id}]"
    if len(noted) > _NOTES:
        yield f"… {len(noted) - _NOTES} more"


def _place(suspicion: Suspicion) -> str:
    return f"{suspicion.path}:{suspicion.line}" if suspicion.line else suspicion.path


def _output_of(report: ChangeReport) -> list[str]:
    """Return the end of the check's output, if a run of it failed."""
    failed = any(not each.passed for each in report.proof.evidence if each.id in _RUNS)
    return failed_tests.last_lines(report.output, _LINES) if failed else []


def _one_line(text: str) -> str:
    return " ".join(text.split())


def write_markdown(report: ChangeReport, locale: Locale = "en") -> str:
    """Write the page for a forge. Nothing in it that comes from the change can act as Markdown."""
    proof = report.proof
    head = change_words.HEAD_WHY if proof.proven else change_words.HEAD_WHY_NOT
    about = change_words.CHANGED_FILES(count=len(report.change.files), base=report.base_shown)
    lines = [f"### {'✅' if proof.proven else '❌'} {_plain(render(report.title, locale))}", ""]
    lines += [
        f"{_plain(render(about, locale))} · {_code(report.change.check.run)}",
        "",
        f"**{head.render(locale)}**",
        "",
    ]
    for each in proof.evidence:
        detail = f": {_plain(render(each.detail, locale))}" if each.detail else ""
        asked = change_proof.describe_evidence(each.id).render(locale)
        lines.append(f"- {'✅' if each.passed else '❌'} {asked}{detail}")
    if _output_of(report):
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", report.output)), 3)
        lines += ["", fence, *(line[-300:] for line in _output_of(report)), fence]
    for title, items in (
        (change_words.HEAD_STEPS, [render(step, locale) for step in proof.steps]),
        (change_words.HEAD_NOTES, list(_notes(proof, locale))),
        (change_words.HEAD_UNCHECKED, [render(each, locale) for each in proof.unchecked]),
    ):
        if items:
            lines += ["", f"**{title.render(locale)}**", "", *(f"- {_plain(item)}" for item in items)]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    return _BAD_IN_MARKDOWN.sub(r"\\\1", _one_line(text))


def _code(text: str) -> str:
    return f"`` {_one_line(text).replace('`', chr(39))} ``"


def to_json(report: ChangeReport) -> dict[str, Any]:
    """Convert the page to JSON."""
    proof, check = report.proof, report.change.check
    return {
        "ok": proof.proven,
        "verdict": "proven" if proof.proven else "not_proven",
        "trust": proof.verdict.trust,
        "work": report.work,
        "head": report.head,
        "base": report.base,
        "base_name": report.base_name,
        "check": {"run": check.run, "cwd": check.cwd or "", "kind": check.kind, "tool": report.tool, "why": report.why},
        "evidence": [
            {
                "id": each.id,
                "asks": change_proof.describe_evidence(each.id),
                "passed": each.passed,
                "trust": each.trust,
                "detail": each.detail,
            }
            for each in proof.evidence
        ],
        "missing": list(proof.verdict.missing),
        "tests": {
            "new": list(proof.new_tests),
            "gone": list(proof.gone_tests),
            "skipped": list(proof.skipped_tests),
            "red_before": list(proof.red_tests),
        },
        "files": [
            {"path": scope.display_path(file.path), "kind": file.kind}
            | ({"moved_from": scope.display_path(file.moved_from)} if file.moved_from else {})
            for file in report.change.files
        ],
        "suspicions": [
            {"id": each.id, "path": each.path, "line": each.line, "message": each.message, "refuses": each.refuses}
            for each in proof.suspicions
        ],
        "unchecked": list(proof.unchecked),
        "steps": list(proof.steps),
        "output": "\n".join(_output_of(report)),
    }


def to_sarif(report: ChangeReport, version: str) -> dict[str, Any]:
    """Convert the page to SARIF 2.1.0: a result for each suspicion, and for each piece of evidence that is missing."""
    results = [
        _sarif_result(each.id, each.message, each.path, each.line, each.refuses) for each in report.proof.suspicions
    ]
    for each in report.proof.evidence:
        if not each.passed:
            text = f"{change_proof.describe_evidence(each.id)}: {each.detail}"
            results.append(_sarif_result(f"missing-{each.id}", text, "", 0, True))
    rules = sorted({result["ruleId"] for result in results})
    driver = {
        "name": "agenttalk prove",
        "version": version,
        "informationUri": "https://agenttalk.invalid/prove",
        "rules": [{"id": rule, "shortDescription": {"text": rule.replace("-", " ")}} for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "properties": {"verdict": "proven" if report.proof.proven else "not_proven"},
        "results": results,
        "columnKind": "unicodeCodePoints",
    }
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _sarif_result(rule: str, text: str, path: str, line: int, refuses: bool) -> dict[str, Any]:  # noqa: FBT001 - a field
    found: dict[str, Any] = {"ruleId": rule, "level": "error" if refuses else "note", "message": {"text": str(text)}}
    if path:
        place: dict[str, Any] = {"artifactLocation": {"uri": _to_uri(path)}}
        place |= {"region": {"startLine": line}} if line else {}
        found["locations"] = [{"physicalLocation": place}]
    return found


def _to_uri(path: str) -> str:
    """Write a path as a relative URI."""
    safe = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/")
    return "".join(char if char in safe else "".join(f"%{byte:02X}" for byte in char.encode()) for char in path)


def write_junit(report: ChangeReport) -> str:
    """Write the page as a JUnit report: a test for each piece of evidence."""
    proof = report.proof
    failed = sum(not each.passed for each in proof.evidence)
    counts = f'tests="{len(proof.evidence)}" failures="{failed}" errors="0" skipped="0"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {counts}>"]
    lines.append(f'<testsuite name="agenttalk prove" {counts}>')
    for each in proof.evidence:
        case = f'<testcase classname="agenttalk.prove" name={_attribute(each.id)}'
        if each.passed:
            lines.append(f"{case}/>")
            continue
        message = _attribute(str(each.detail) or str(change_proof.describe_evidence(each.id)))
        body = escape(_clean("\n".join(_output_of(report)))) if each.id in _RUNS else ""
        lines.append(f"{case}><failure message={message}>{body}</failure></testcase>")
    told = escape(_clean("\n".join(str(each) for each in proof.unchecked)))
    return "\n".join([*lines, f"<system-out>{told}</system-out>", "</testsuite>", "</testsuites>"]) + "\n"


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))


def _clean(text: str) -> str:
    """Return a text without characters that XML does not have."""
    return _BAD_IN_XML.sub("\ufffd", text)
