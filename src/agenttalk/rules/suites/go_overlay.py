"""How Go's package testing is changed so that it reports: a few calls at places that are found in its source.

Go compiles the changed files in place of its own (`-overlay`). Where a place is not found, as in a Go that is too old
or too new, nothing is changed, and nothing is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REPORTER: Final = "agenttalk_report.go"
"""The name of the file that is added to the package."""
_OVER: Final = ("\t\tcode = m.exitCode\n\t}()\n", "\t\treportOver(m)\n\t\tcode = m.exitCode\n\t}()\n")
_START: Final = ("\n\tm.before()\n", "\n\treportStart(m)\n\tm.before()\n")
_TEST: Final = ("\tdstr := fmtDuration(t.duration)\n", "\treportTest(&t.common)\n\tdstr := fmtDuration(t.duration)\n")
_SKIP: Final = (
    '\tc.checkFuzzFn("Skip")\n\tc.log(',
    '\tc.checkFuzzFn("Skip")\n\treportSkip(c, fmt.Sprintln(args...))\n\tc.log(',
)
_SKIPF: Final = (
    '\tc.checkFuzzFn("Skipf")\n\tc.log(',
    '\tc.checkFuzzFn("Skipf")\n\treportSkip(c, fmt.Sprintf(format, args...))\n\tc.log(',
)
_FUZZ: Final = ("\tdstr := fmtDuration(f.duration)\n", "\treportTest(&f.common)\n\tdstr := fmtDuration(f.duration)\n")
_EXAMPLE: Final = (
    "\tpassed = true\n\tdstr := fmtDuration(timeSpent)\n",
    (
        "\tpassed = true\n\tdefer func() { reportEnd(eg.Name, nil, !passed || recovered != nil, false) }()\n"
        "\tdstr := fmtDuration(timeSpent)\n"
    ),
)
_MATCHER: Final = (
    "func newMatcher(matchString func(pat, str string) (bool, error), patterns, name, skips string) *matcher {",
    "func (m *matcher) fullName(c *common, subname string) (name string, ok, partial bool) {",
)
CHANGES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "testing.go": (_OVER, _START, _TEST, _SKIP, _SKIPF),
    "fuzz.go": (_FUZZ,),
    "example.go": (_EXAMPLE,),
    "match.go": tuple((each, each) for each in _MATCHER),
}
"""File of the package → what stands there, exactly once, and what stands there afterwards."""


def change_sources(sources: Mapping[str, str]) -> dict[str, str] | None:
    """Change the source of package testing; None where it is not as it is expected."""
    changed: dict[str, str] = {}
    for name, changes in CHANGES.items():
        text = sources.get(name, "")
        for before, after in changes:
            if text.count(before) != 1:
                return None
            text = text.replace(before, after)
        if text != sources[name]:
            changed[name] = text
    return changed
