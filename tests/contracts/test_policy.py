"""Policies that past work is held against: what they may say."""

from __future__ import annotations

import pytest

from agenttalk.contracts.errors import Code, ContractError
from agenttalk.contracts.policy import AuditPolicy, policy_of, read_policy

GOOD = b"""min_trust: observed
criteria:
  - {id: "tests-*", min_trust: executed}
required_checks: [tests]
red_first: required
refuse: [not_isolated, overridden]
max_rounds: 1
max_age_days: 30
approvals: 1
"""


def test_a_policy_is_read_from_yaml_and_from_json() -> None:
    policy = read_policy(GOOD, yaml=True)
    assert policy.criteria[0].min_trust == "executed"
    assert policy.max_age_days == 30
    assert read_policy(policy.to_bytes(), yaml=False) == policy


@pytest.mark.parametrize(
    ("text", "yaml", "code", "words"),
    [
        (b"min_turst: executed", True, Code.FIELD_UNKNOWN, "did you mean 'min_trust'?"),
        (b"zzzzz: 1\nmin_trust: executed", True, Code.FIELD_UNKNOWN, "there are: "),
        (b"criteria: [{id: a, min_trust: executed, why: x}]", True, Code.FIELD_UNKNOWN, "criteria[0].why"),
        (b"criteria: [7]", True, Code.FIELD_TYPE, "criteria[0]"),
        (b"min_trust: sure", True, Code.FIELD_VALUE, "min_trust"),
        (b"refuse: [rain]", True, Code.FIELD_VALUE, "refuse[0]"),
        (b"max_rounds: -1\nmax_age_days: 0", True, Code.FIELD_VALUE, "(and 1 more)"),
        (b"{}", True, Code.FIELD_MISSING, "requires nothing"),
        (b'{"schema_version": "1.0"}', False, Code.FIELD_MISSING, "requires nothing"),
        (b"[1]", True, Code.FIELD_TYPE, "JSON object"),
        (b"{", False, Code.JSON_SYNTAX, ""),
        (b"a: [", True, Code.YAML_SYNTAX, ""),
        (b"a: 1\na: 2", True, Code.JSON_DUPLICATE_KEY, ""),
    ],
)
def test_what_is_wrong_with_a_policy_is_said(text: bytes, yaml: bool, code: Code, words: str) -> None:
    with pytest.raises(ContractError) as refused:
        read_policy(text, yaml=yaml)
    assert refused.value.message.startswith("not a valid policy")
    assert code in {each.code for each in refused.value.problems}, refused.value.problems
    shown = f"{refused.value.message} {refused.value.hint} {refused.value.problems}"
    assert words in shown


def test_what_is_no_json_is_no_policy() -> None:
    with pytest.raises(ContractError, match="not a valid policy"):
        policy_of({"min_trust": b"x"})
    assert policy_of({"approvals": 2}) == AuditPolicy(approvals=2)
