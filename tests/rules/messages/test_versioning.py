"""A second artifact for the same output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.dag import Versioning, VersioningMode
from agenttalk.rules.messages.artifact_versions import ArtifactVersion, judge

FIRST = ArtifactVersion("m1", 1, frozenset({("a.md", "sha256:1")}), "1.0.0")
SAME = ArtifactVersion("m2", 1, FIRST.digests, "1.0.0")
OTHER = ArtifactVersion("m3", 1, frozenset({("a.md", "sha256:2")}), "1.0.0")
TAGGED = ArtifactVersion("m4", 1, OTHER.digests, "1.1.0")


@pytest.mark.parametrize(
    ("mode", "same", "other", "tagged"),
    [
        ("reject_on_change", "duplicate", "conflict", "conflict"),
        ("keep_latest", "duplicate", "replace", "replace"),
        ("overwrite_by_name", "duplicate", "replace", "replace"),
        ("immutable_by_message_id", "accept", "accept", "accept"),
        ("semver_tagged", "duplicate", "conflict", "accept"),
    ],
)
def test_each_mode_treats_same_and_other_content_in_its_way(
    mode: VersioningMode, same: str, other: str, tagged: str
) -> None:
    versioning = Versioning(mode=mode)
    assert judge(FIRST, [], versioning) == "accept"
    assert judge(SAME, [FIRST], versioning) == same
    assert judge(OTHER, [FIRST], versioning) == other
    assert judge(TAGGED, [FIRST], versioning) == tagged


modes = st.sampled_from(
    ["reject_on_change", "keep_latest", "overwrite_by_name", "immutable_by_message_id", "semver_tagged"]
)


@given(modes, st.integers(1, 9), st.integers(1, 9))
def test_a_later_order_always_replaces_and_an_earlier_one_is_always_too_late(
    mode: VersioningMode, seq: int, other: int
) -> None:
    new = ArtifactVersion("n", seq, OTHER.digests)
    earlier = ArtifactVersion("e", other, FIRST.digests)
    verdict = judge(new, [earlier], Versioning(mode=mode))
    assert (verdict == "outdated") is (seq < other)
    if seq > other:
        assert verdict == "replace"
