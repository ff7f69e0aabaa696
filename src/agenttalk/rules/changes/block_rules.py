"""Rules about more than one line of code in other languages than Python: comparisons, and scripts of the shell.

A comparison is read with its whole body, however it is laid out. A file that other scripts read in, which has no
`#!` line, must not end the shell that reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from agenttalk.rules.changes import line_rules
from agenttalk.rules.changes.python_reach import Reach

_LONGEST: Final = 4_000
"""Characters of a body that is read."""
_OBJECTS: Final = re.compile(
    r"\b(?:boolean\s+equals\s*\(\s*(?:final\s+)?(?:@\w+\s+)*Object\s+\w+\s*\)|fun\s+equals\s*\(\s*\w+\s*:\s*Any\?\s*\)"
    r"(?:\s*:\s*Boolean)?)\s*(?:throws[^{]*|=)?\s*(?=\{)"
)
_OWN_TYPE: Final = re.compile(
    r"\binstanceof\b|\bgetClass\b|\bisInstance\b|==\s*this\b|\bthis\s*===?|\bequals\b|\bcompare\w*\b|\bcanEqual\b|\(\s*[A-Z]"
    r"\w*(?:<[^>]*>)?\s*\)|\bis\b|\bas\b|\bthrow\b|\breflectionEquals\b|\breturn\s+false\s*;\s*\}?\s*\Z"
)
"""What an honest comparison with any object does: it looks whether that is one of its own type."""
_TRAITS: Final = re.compile(
    r"\bfn\s+eq\s*(?:<[^>{]*>)?\s*\(\s*&\s*self\s*,\s*\w+\s*:[^{};]{1,200}?\)\s*->\s*bool\s*(?:where[^{]*)?(?=\{)"
)
_COMPARED: Final = re.compile(
    r"[=!]=|eq|cmp|Eq|\bmatch|\bis_\w+|same|[Ee]qual|\bfalse\b|\bcontains\b|ptr|panic!|todo!|unimplemented!|unreachable!"
    r"|\w!\s*[({\[]|<|\bany\(|\ball\("
)
_GO_EQUAL: Final = re.compile(r"\bfunc\s*\([^()]*\)\s*Equals?\s*\([^()]*\)\s*bool\s*(?=\{)")
_ALWAYS: Final = re.compile(r"\{\s*return\s+(?:true|!false|1\s*==\s*1)\s*;?\s*\}\Z")
_GO_ALWAYS: Final = re.compile(r"\{\s*(?:_\s*=\s*\w+\s*)?return\s+(?:true|!false)\s*\}\Z")
_SCRIPT_EQUALS: Final = re.compile(r"(?:^|[\s{,;])(?:equals|isEqual|isEqualTo|asymmetricMatch)\s*\([^()]*\)\s*(?=\{)")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPENS_OR_CLOSES: Final = re.compile(r"[{}]")
_CALLERS: Final = re.compile(
    r"\bnew\s+Error\([^()]*\)\s*\.stack\b|\bError\.(?:captureStackTrace|prepareStackTrace)\b|\bruntime\.Callers?\("
    r"|\.getStackTrace\(\)|\bStackWalker\b|\bBacktrace::"
)
_READS: Final = re.compile(line_rules.READS + r"\s*\(")
_ENDS_SHELL: Final = re.compile(
    r"(?:exit(?:[ \t]+0)?|exec[ \t]+[^<>\d&\s].*|return[ \t]+0[ \t]*&&.*|kill\b.*\$\$.*)[ \t]*;?[ \t]*\Z"
)
_SHELL: Final = (".sh", ".bash", ".dash", ".ksh", ".zsh")


def find_blocks(path: str, source: str) -> tuple[Reach, ...]:
    """Find comparisons that always hold, lines that end the shell of a caller, and code that reads its callers."""
    if path.endswith(_SHELL):
        return tuple(_find_shell_ends(source))
    if path.endswith((".java", ".kt")):
        found = _find_comparisons(source, _OBJECTS, _OWN_TYPE)
    elif path.endswith(".rs"):
        found = _find_comparisons(source, _TRAITS, _COMPARED)
    elif path.endswith(".go"):
        found = _find_constants(source, _GO_EQUAL, _GO_ALWAYS)
    elif path.endswith((".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")):
        found = _find_constants(source, _SCRIPT_EQUALS, _ALWAYS)
    else:
        return ()
    return (*found, *_find_callers_read(source))


def _find_callers_read(source: str) -> Iterator[Reach]:
    """Find where code finds out which file calls it, if it also reads files."""
    if _READS.search(source):
        for found in _CALLERS.finditer(source):
            number = source.count("\n", 0, found.start()) + 1
            yield Reach("tests-read", number, number)


def _find_comparisons(source: str, head: re.Pattern[str], honest: re.Pattern[str]) -> Iterator[Reach]:
    """Find comparisons in whose body there is nothing that an honest one needs."""
    for found, body in _list_bodies(source, head):
        if not honest.search(body):
            yield _mark(source, found, body)


def _find_constants(source: str, head: re.Pattern[str], constant: re.Pattern[str]) -> Iterator[Reach]:
    """Find comparisons whose body is nothing but yes."""
    for found, body in _list_bodies(source, head):
        if constant.match(body):
            yield _mark(source, found, body)


def _list_bodies(source: str, head: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str]]:
    """List what a pattern finds, each with the block in braces behind it, without comments."""
    lines = source.split("\n")
    for found in head.finditer(source):
        if line_rules.is_comment(lines, source.count("\n", 0, found.start()) + 1):
            continue
        depth = 0
        for brace in _OPENS_OR_CLOSES.finditer(source, found.end(), found.end() + _LONGEST):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                yield found, _COMMENT.sub(" ", source[found.end() : brace.end()])
                break


def _mark(source: str, found: re.Match[str], body: str) -> Reach:
    first = source.count("\n", 0, found.start()) + 1
    return Reach("always-equal", first, first + found[0].count("\n") + body.count("\n"))


def _find_shell_ends(source: str) -> Iterator[Reach]:
    """Find lines outside functions and conditions that end the shell with success, in a file that others read in."""
    if source.startswith("#!"):
        return
    for number, line in enumerate(source.splitlines(), 1):
        if _ENDS_SHELL.match(line):
            yield Reach("early-exit", number, number)
