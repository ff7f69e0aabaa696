"""How often honest work is called suspicious: the releases of well-known packages, each held against the one before.

    python bench/suspicions.py FOLDER

FOLDER holds a folder for each package with the archives of consecutive releases (`pip download --no-deps --no-binary
:all:`, `npm pack`, `go mod download`, `cargo fetch`, `mvn dependency:get` of sources). Prints a table in Markdown: for
each rule, how many files and releases it tells of.
"""

from __future__ import annotations

import argparse
import re
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from agenttalk.rules.changes import changed_files
from agenttalk.rules.changes.changed_files import ChangedFile
from agenttalk.rules.changes.suspicions import Suspicion, find_suspicions
from agenttalk.rules.checks import test_runners
from agenttalk.rules.core.scope import Globs

_NUMBERS = re.compile(r"\d+")
_NAME = re.compile(r"-v?(\d[\w.]*?)(?:-sources)?\.(?:tar\.gz|tgz|zip|crate|jar)\Z")
_MODULE = re.compile(r"\A[^@]+@[^/]+/")
"""What stands before the path of a file in a module of Go."""


class Release(NamedTuple):
    """A release, with what changed since the one before."""

    package: str
    name: str
    files: tuple[ChangedFile, ...]
    found: tuple[Suspicion, ...]


def read_archive(path: Path) -> dict[str, bytes]:
    """Read the files of an archive, without the folder around them and what only a release has."""
    if path.suffix in {".zip", ".jar"}:
        with zipfile.ZipFile(path) as archive:
            found = {each: archive.read(each) for each in archive.namelist() if not each.endswith("/")}
    else:
        with tarfile.open(path) as archive:
            members = [each for each in archive.getmembers() if each.isfile()]
            found = {each.name: archive.extractfile(each).read() for each in members}  # type: ignore[union-attr]
    if path.suffix == ".jar":
        inner = found
    elif any("@" in name for name in found):
        inner = {_MODULE.sub("", name): data for name, data in found.items()}
    else:
        inner = {name.partition("/")[2]: data for name, data in found.items()}
    return {name: data for name, data in inner.items() if ".egg-info/" not in name and name != "PKG-INFO"}


def list_changes(before: dict[str, bytes], after: dict[str, bytes]) -> tuple[ChangedFile, ...]:
    """List the files that differ between two releases."""
    names = sorted(before.keys() | after.keys())
    pairs = [ChangedFile(name, before.get(name), after.get(name)) for name in names]
    return changed_files.pair_moves([each for each in pairs if each.before != each.after])


def list_releases(folder: Path) -> Iterator[Release]:
    """List the releases of one package but the oldest."""
    archives = [path for path in folder.iterdir() if _NAME.search(path.name)]
    archives.sort(key=lambda path: [int(each) for each in _NUMBERS.findall(_NAME.search(path.name)[1])])  # type: ignore[index]
    for one, other in pairwise(archives):
        before, after = read_archive(one), read_archive(other)
        files = list_changes(before, after)
        tests = [data for name, data in after.items() if test_runners.is_test(name)]
        found = [each for file in files for each in find_suspicions([file], Globs())]
        found += [each for each in find_suspicions(files, Globs(), tests) if each.id == "answers-copied"]
        yield Release(folder.name, other.name, files, tuple(found))


def print_table(releases: Sequence[Release]) -> None:
    """Print what was found, by rule."""
    changed = sum(len(each.files) for each in releases)
    lines: Counter[str] = Counter()
    per_file: Counter[str] = Counter()
    per_release: Counter[str] = Counter()
    grave = {each.id for release in releases for each in release.found if each.grave}
    for release in releases:
        lines.update(each.id for each in release.found)
        per_file.update(name for name, _ in {(each.id, each.path) for each in release.found})
        per_release.update({each.id for each in release.found})
    print("| rule | asks | lines | files per 1,000 | releases |")
    print("|---|---|---|---|---|")
    for name in sorted(per_file, key=lambda each: (each not in grave, -per_file[each])):
        share = 1000 * per_file[name] / max(changed, 1)
        print(f"| `{name}` | {'yes' if name in grave else ''} | {lines[name]:,} | {share:.2f} | {per_release[name]} |")
    asked = [each for each in releases if any(one.grave for one in each.found)]
    packages = {each.package for each in releases}
    print(
        f"\n{len(releases)} releases of {len(packages)} packages, {changed:,} changed files; {len(asked)} releases ask."
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", default="", metavar="RULE", help="print the lines of a rule; `asks` for all that ask")
    given = parser.parse_args()
    releases = [each for folder in sorted(given.folder.iterdir()) if folder.is_dir() for each in list_releases(folder)]
    for release in releases if given.show else ():
        for each in release.found:
            if each.id == given.show or (given.show == "asks" and each.grave):
                print(f"{release.name} {each.path}:{each.line} [{each.id}] {each.message}", file=sys.stderr)
    print_table(releases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
