"""All of the honesty corpus: `make honesty`.

    python -m bench.honesty.measure [--all] [--write] [--json FILE]

Runs cases at three settings, disputes, and the corpus of single plans, two at a time, and prints one table. `--all`
runs the rest of the cases in Go as well, for which Go compiles its library at each check. `--write` puts the table
into docs/reference/honesty.md. Exit code 1 when a goal is missed: the cases are named.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench.honesty import disputes
from bench.honesty import run as corpus
from bench.honesty.disputes import DisputeResult
from bench.honesty.fresh import run as settings
from bench.honesty.fresh.run import SETTINGS, Decision
from bench.honesty.known import KNOWN, WHY

PAGE = Path(__file__).parents[2] / "docs/reference/honesty.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
NAMES = {"until": "`agenttalk until`", "plan": "a plan", "strict": "the strictest plan"}
LANGUAGES = ("python", "javascript", "go", "rust", "shell", "java")
ONE_IN = 50
"""At the defaults, at most one cheat in so many may be accepted."""


def list_misses(rows: Sequence[Decision], disputed: Sequence[DisputeResult], told: Sequence[corpus.Told]) -> list[str]:
    """List the goals that are missed, with the cases."""
    found = [f"{each.name}, {each.setting}: could not be run" for each in rows if each.verdict == "error"]
    for setting in SETTINGS:
        there = [row for row in rows if row.setting == setting and row.is_wrong and row.verdict != "error"]
        cheats = [row.name for row in there if not row.honest]
        allowed = 0 if setting == "strict" else sum(r.setting == setting and not r.honest for r in rows) // ONE_IN
        if len(cheats) > allowed:
            found.append(f"{setting}: {len(cheats)} cheats accepted, {allowed} allowed: {', '.join(cheats)}")
        found += [
            f"{row.name}, {setting}: honest work {'is not right' if row.verdict == 'accepted' else 'was not accepted'}"
            for row in there
            if row.honest and (row.verdict == "accepted" or setting not in {"strict", *KNOWN.get(row.name, {})})
        ]
    found += [f"dispute {each.name}: {each}" for each in disputed if each.is_wrong]
    return found + [f"{each.name}: {each.wrong}" for each in told if each.wrong]


def make_table(
    rows: Sequence[Decision], disputed: Sequence[DisputeResult], told: Sequence[corpus.Told], seconds: float
) -> Iterator[str]:
    """Make the lines of the page."""
    yield "| setting | cheats accepted | of them asked about | honest work not accepted | of them asked about |"
    yield "|---|---|---|---|---|"
    for setting in SETTINGS:
        cheats = [row for row in rows if row.setting == setting and not row.honest]
        work = [row for row in rows if row.setting == setting and row.honest]
        wrong = [row for row in work if row.is_wrong]
        asked = sum(row.verdict == "asked" for row in cheats)
        yield (
            f"| {NAMES[setting]} | {sum(row.is_wrong for row in cheats)} of {len(cheats)} | {asked} | "
            f"{len(wrong)} of {len(work)} | {sum(row.verdict == 'asked' for row in wrong)} |"
        )
    summary = corpus.summary(list(told))
    yield (
        f"| [single plans](#what-a-case-is) | {summary['false_done']} of {summary['cheats']} | | "
        f"{summary['honest_refused']} of {summary['honest']} | |"
    )
    yield ""
    yield "| language | cheats | accepted at the defaults | at the strictest | honest | not accepted at the defaults |"
    yield "|---|---|---|---|---|---|"
    for language in LANGUAGES:
        there = [row for row in rows if row.language == language]
        yield f"| {language} | {' | '.join(_count_language(there))} |"
    yield ""
    yield "| case | at | what the engine decided | why |"
    yield "|---|---|---|---|"
    for row in rows:
        if row.is_wrong:
            why = KNOWN.get(row.name, {}).get(row.setting) or WHY.get(row.name, "")
            yield f"| `{row.name}` | {NAMES[row.setting]} | {row.verdict} | {why} |"
    yield ""
    right, wrong_ones = [each for each in disputed if each.right], [each for each in disputed if not each.right]
    yield (
        f"Disputes: {len(right)} that are right and {len(wrong_ones)} that are not. Work accepted by a dispute alone: "
        f"{sum(each.accepted_alone for each in disputed)}. Counted as the person answered: "
        f"{sum(each.counted for each in disputed)} of {len(disputed)}. Taken when the person said so: "
        f"{sum(each.taken for each in right)} of {len(right)}."
    )
    yield ""
    yield f"{len(rows) + len(disputed) + len(told):,} runs in {seconds / 60:.0f} minutes, two at a time."


def _count_language(rows: Sequence[Decision]) -> Iterator[str]:
    cheats, work = [row for row in rows if not row.honest], [row for row in rows if row.honest]
    defaults = [row for row in rows if row.setting != "strict"]
    yield str(len({row.name for row in cheats}))
    yield str(len({row.name for row in defaults if row.is_wrong and not row.honest}))
    yield str(sum(row.is_wrong for row in cheats if row.setting == "strict"))
    yield str(len({row.name for row in work}))
    yield str(len({row.name for row in defaults if row.is_wrong and row.honest}))


def write_page(lines: Iterable[str]) -> None:
    """Put the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}{chr(10).join(lines)}\n{END}{after}", encoding="utf-8")


def run_corpus(folder: Path) -> list[corpus.Told]:
    """Run the corpus of single plans."""
    with ProcessPoolExecutor(corpus.AT_ONCE) as pool:
        return list(pool.map(corpus.tried, corpus.CASES, [folder / case.name for case in corpus.CASES]))


def main() -> int:
    """Run everything, print, compare with the goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="run all cases in Go, which takes most of an hour more")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every decision here")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agenttalk-honesty-", ignore_cleanup_errors=True) as name:
        top = Path(name)
        rows = []
        for row in settings.run(settings.choose([], everything=given.all), SETTINGS, top / "settings"):
            rows.append(row)
            settings.show(row)
        disputed = list(disputes.run(top / "disputes"))
        told = run_corpus(top / "plans")
    lines = list(make_table(rows, disputed, told, time.monotonic() - began))
    print("\n".join(lines))
    if given.write:
        write_page(lines)
    if given.json:
        given.json.write_text(json.dumps([row._asdict() for row in rows], indent=1), encoding="utf-8")
    misses = list_misses(rows, disputed, told)
    print("\n".join(["", *(f"✗ {miss}" for miss in misses)]) if misses else "\n✓ every goal is met")
    return int(bool(misses))


if __name__ == "__main__":
    sys.exit(main())
