"""Commands validated and generated per second, against the jsonschema library on the same schema in the same run.

Rounds are interleaved, so that a busy moment of the machine hits both; what counts is the ratio.
`python bench/contracts.py [--json]`; exit code 1 when a goal is missed.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from jsonschema import Draft202012Validator

from agenttalk.contracts.command import DagRef
from agenttalk.contracts.core import catalogue, wire
from agenttalk.contracts.dag import TaskDag
from agenttalk.rules.commands import validation
from agenttalk.rules.commands.generation import generate
from agenttalk.rules.commands.validation import Known
from agenttalk.rules.plans import dag_checks

ROUNDS = 7
DIGEST = "sha256:" + "ab" * 32
KNOWN = Known(dag_ref=DagRef(sha256=DIGEST), task_ids={"implement"})
PARAMETERS: dict[str, Any] = {
    "plan_id": "plan_shop",
    "task_id": "implement",
    "command_id": "cmd_implement",
    "prompt": "Implement the price function and its tests. " * 20,
    "required_inputs": "requirements.md",
    "timeout": "900",
    "score_required": "true",
    "produces": [{"output_name": "change.patch", "files": [{"path": "change.patch", "content_type": "text/x-diff"}]}],
    "promise": {
        "id": "cp-1717980000000-a3f1",
        "objective": "The price function works and is tested",
        "acceptance": [{"id": "tests", "description": "The suite passes", "evidenceRequired": ["tests-pass"]}],
        "allowedScope": ["src/**"],
        "checks": [{"id": "tests-pass", "kind": "tests", "run": "pytest -q --junitxml=r.xml", "junit": "r.xml"}],
    },
}


def rate(work: Callable[[], object], seconds: float = 0.4) -> float:
    """How often per second."""
    done, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        for _ in range(10):
            work()
        done += 10
    return done / spent


def dag_of(size: int) -> bytes:
    """A plan in which each task follows up to two others and takes their outputs."""
    nodes = [
        {
            "task_id": f"t{i}",
            "assigned_agent_id": f"a{i % 100}",
            "depends_on": [f"t{j}" for j in range(max(0, i - 2), i)],
            "inputs": [
                {"name": f"i{j}", "selector": {"type": "by_output_name", "value": f"o{j}"}}
                for j in range(max(0, i - 2), i)
            ],
            "outputs": [{"name": f"o{i}", "deliver_to": ["*"]}],
        }
        for i in range(size)
    ]
    return wire.write({"schema_version": "1.1", "plan_id": "p", "nodes": nodes})


def measure() -> dict[str, float]:
    answer = generate(PARAMETERS, KNOWN)
    if answer.command is None:
        raise SystemExit(f"the sample is refused: {answer.errors}")
    command = answer.command.as_json()
    data = wire.write(command)
    peer = Draft202012Validator(catalogue.schema("command"))
    works: dict[str, Callable[[], object]] = {
        "validate": lambda: validation.validate(command, KNOWN),
        "validate from bytes": lambda: validation.validate_json(wire.read(data), KNOWN),  # type: ignore[arg-type]
        "jsonschema": lambda: next(peer.iter_errors(command), None),
        "generate": lambda: generate(PARAMETERS, KNOWN),
    }
    rounds = [{name: rate(work) for name, work in works.items()} for _ in range(ROUNDS)]
    figures = {name: statistics.median(each[name] for each in rounds) for name in works}
    figures["ratio"] = statistics.median(each["validate"] / each["jsonschema"] for each in rounds)
    return figures


def measure_dag() -> dict[str, float]:
    data = dag_of(100_000)
    start = time.perf_counter()
    dag = TaskDag.from_bytes(data)
    parsed = time.perf_counter()
    report = dag_checks.check(dag, agents={f"a{i}" for i in range(100)})
    checked = time.perf_counter()
    if not report.ok:
        raise SystemExit(f"the sample is refused: {report.problems[:3]}")
    return {"DAG parsed, s": parsed - start, "DAG checked, s": checked - parsed}


def main() -> int:
    figures = measure() | measure_dag()
    goals = {
        "validate / jsonschema ≥ 20": figures["ratio"] >= 20,
        "generate ≥ 10,000 per second": figures["generate"] >= 10_000,
        "DAG of 100,000 tasks checked in under 2 s": figures["DAG checked, s"] < 2,
    }
    if "--json" in sys.argv:
        print(json.dumps({"figures": figures, "goals": goals}, ensure_ascii=False, indent=2))
    else:
        for name in ("validate", "validate from bytes", "generate", "jsonschema"):
            print(f"{name:<22}{figures[name]:>12,.0f} per second")
        print(f"{'validate / jsonschema':<22}{figures['ratio']:>12.1f} times")
        for name in ("DAG parsed, s", "DAG checked, s"):
            print(f"{name:<22}{figures[name]:>12.2f}   (100,000 tasks)")
        for name, met in goals.items():
            print(f"{'✓' if met else '✗'} {name}")
    return 0 if all(goals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
