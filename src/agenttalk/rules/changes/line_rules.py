"""Rules about single lines that a change adds, for every language, one table.

Python is read from its syntax as well (`python_reach.py`); its rules here are for Python of other versions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from agenttalk.rules.changes import check_discovery
from agenttalk.rules.text import change_words
from agenttalk.rules.text.message import Template


class LineRule(NamedTuple):
    """A rule about single lines that a change adds."""

    id: str
    pattern: re.Pattern[str]
    text: Template
    where: str
    """`tests`, `code` (all but tests), `runs` (workflows, makefiles, scripts), `workflow`, `unread` (Python that cannot
    be read), endings of files such as `.js .ts`, or `any`."""


_SCRIPT: Final = ".js .jsx .mjs .cjs .ts .tsx .mts .cts"
_SHELL: Final = ".sh .bash .dash .ksh .zsh"
_SKIPS: Final = re.compile(
    r"pytest\.mark\.(?:skip|skipif|xfail)\b|pytest\.(?:skip|xfail|importorskip)\(|pytestmark\s*=.*(?:skip|xfail)"
    r"|unittest\.(?:skip|expectedFailure)|@(?:skip|skipIf|skipUnless|expectedFailure)\b|\.skipTest\(|raise\s+SkipTest"
    r"|\b(?:it|test|describe|suite|context)\.(?:skip|todo|fails|failing)\b|\b(?:xit|xtest|xdescribe)\s*\("
    r"|\bt\.Skip(?:f|Now)?\(|#\[ignore|@(?:Disabled|Ignore)\b|\[(?:Ignore|Fact\(Skip|Theory\(Skip)|collect_ignore"
    r"|__test__\s*=\s*False"
)
_ONLY: Final = re.compile(r"\b(?:it|test|describe|suite|context)\.only\b|\b(?:fit|fdescribe)\s*\(")
_ALWAYS_TRUE: Final = re.compile(
    r"^\s*assert\s+(?:True|1|not\s+False)\b\s*(?:,.*)?(?:#.*)?$|\.assertTrue\(\s*True\s*[,)]|assert!\(\s*true\s*[,)]"
    r"|expect\(\s*(?:true|1)\s*\)\.(?:toBe|toEqual|toStrictEqual)\(\s*(?:true|1)\s*\)|assert\.ok\(\s*true\s*\)"
    r"|expect\(\s*true\s*\)\.toBeTruthy\(\)"
)
_SILENCED: Final = re.compile(
    r"#\s*(?:noqa|nosec|pragma:\s*no\s*cover|pylint:\s*disable|type:\s*ignore|pyright:\s*ignore|mypy:\s*ignore-errors)"
    r"|eslint-disable|@ts-(?:ignore|nocheck|expect-error)|biome-ignore|(?:istanbul|c8|v8)\s+ignore|//\s*nolint"
    r"|#!?\[allow\(|@SuppressWarnings|NOSONAR|rubocop:\s*disable|phpstan-ignore|#pragma\s+warning\s+disable"
)
_LEAVES: Final = re.compile(
    r"\bprocess\.(?:exit\(\s*0?\s*\)|reallyExit\b|abort\()|\bDeno\.exit\(\s*0?\s*\)|\bos\.Exit\(\s*0\s*\)"
    r"|\bsyscall\.Exit\(|\bprocess::exit\(\s*0\s*\)|\b_exit\s*\(|\bSystem\.exit\(\s*0\s*\)|\.halt\(\s*0\s*\)"
    r"|\bgetMethod\(\s*\"(?:halt|exit)\"|\bgetRuntime\(\)\.exit\(\s*0\s*\)|\bprocess\.exitCode\s*=\s*0\b"
    r"|\blink_section\s*=\s*\"\.(?:init_array|ctors|CRT)|\bsyscall\.(?:RawSyscall|Syscall)6?\(\s*syscall\.SYS_EXIT"
)
_MAIN: Final = re.compile(
    r"\bvoid\s+main\s*\(|\bfunc?\s+main\s*\(|\bfn\s+main\s*\(\)|\brequire\.main\s*===?\s*module\b|\bimport\.meta\.main\b"
)
_CALLS_MAIN: Final = re.compile(r"\bmain\s*\(")
_PIECES: Final = re.compile(r"(['\"])([^'\"\\]*)\1\s*\+\s*(['\"])([^'\"\\]*)\3")
_LINE_COMMENT: Final = re.compile(r"\s*//(?!go:)")
_STARRED: Final = re.compile(r"\s*\*(?:\s|\Z)")
_OPENS_COMMENT: Final = re.compile(r"\s*/\*(?!.*\*/)")
_NAMED: Final = re.compile(r"\[\s*(['\"])([A-Za-z_$][\w$]*)\1\s*\]")
_LEAVES_PYTHON: Final = re.compile(
    r"\bos\._exit\s*\(|^(?:sys\.exit|exit|quit)\(\s*0?\s*\)|^raise\s+SystemExit(?:\(\s*0?\s*\))?\s*$"
)
_HOOKS: Final = re.compile(
    r"\bprocess\.(?:on|once|prependListener)\(\s*['\"](?:exit|beforeExit)['\"]|\.addShutdownHook\(|\batexit\.register\b"
    r"|panic::set_hook\("
)
_IGNORES: Final = re.compile(
    r"\|\|\s*(?:true|:)(?!\w)|continue-on-error:\s*['\"]?true|allow_failure:\s*true|^\s*exit\s+0\b|\bset\s+\+e\b"
    r"|--passWithNoTests|--exit-zero|;\s*true\s*[\"']?\s*,?$"
)
_DISABLES: Final = re.compile(r"\bif:\s*['\"]?(?:\$\{\{\s*)?(?:false|0)\b|when:\s*(?:never|manual)\b|paths-ignore:")
_DESELECTS: Final = re.compile(
    r"--ignore(?:-glob)?[= ]|--deselect\b|\s-k\s*['\"]?not\b|--exclude\b|-DskipTests|-Dmaven\.test\.skip|\s-x\s+test\b"
    r"|collect_ignore|testPathIgnorePatterns|norecursedirs"
)
_DETECTS: Final = re.compile(
    r"JEST_WORKER_ID|VITEST_WORKER_ID|process\.env\.(?:VITEST|NODE_TEST_CONTEXT)\b|NODE_ENV\s*===?\s*[\"']test[\"']"
    r"|\btesting\.Testing\(\)|[\"']-test\.run|flag\.Lookup\(\s*\"test\.|\bcfg!\(\s*test\s*\)|typeof\s+(?:jest|describe|it|expect)\s*!=="
)
_DETECTS_PYTHON: Final = re.compile(
    r"PYTEST_CURRENT_TEST|[\"']pytest[\"']\s+in\s+sys\.modules|[\"']unittest[\"']\s+in\s+sys\.modules"
)
_FORGES: Final = re.compile(re.escape(check_discovery.REPORT))
_TOUCHES: Final = re.compile(
    r"\b(?:assert|expect|chai)\.\w+\s*=(?![=>])|\b(?:globalThis|global|window)\.(?:expect|assert|test|it|describe)\s*=(?!=)"
    r"|\bexpect\.extend\(|\bModule\._(?:load|resolveFilename|extensions)\b|\brequire\.cache\b"
    r"|\b(?:Object|Array|String|Number|Function|Boolean|Map|Set|Promise)\.prototype\.[\w$]+\s*=(?!=)"
    r"|\bObject\.(?:is|keys|entries)\s*=(?!=)|//go:linkname\b|\breflect\.DeepEqual\s*=(?!=)"
)
_TOUCHES_PYTHON: Final = re.compile(
    r"\b_pytest\b|\bpluggy\b|\bTestCase\.\w+\s*=(?!=)|\bunittest\.(?:case|result|runner|loader)\b|\bsys\.settrace\("
)
_FRAMES: Final = re.compile(
    r"\bsys\._getframe\b|\binspect\.(?:stack|currentframe)\b|\bError\.(?:prepareStackTrace|captureStackTrace)\b"
    r"|\bruntime\.(?:Callers?|Stack)\(|\.getStackTrace\(\)|\bStackWalker\b|Backtrace::"
)
_DECODED: Final = re.compile(
    r"\b(?:eval|Function|runIn\w*Context|exec)\s*\(.{0,200}(?:\batob\(|['\"]base64['\"]|fromCharCode|\bb64decode\b|fromhex"
    r"|zlib\.decompress|marshal\.loads)"
)
_ENDS_SHELL: Final = re.compile(
    r"\btrap\s+(?:--\s+)?(?:'[^']*|\"[^\"]*|)\bexit[ \t]+0\b.*\s(?:EXIT|0|ERR)\b"
    r"|\btrap\s+(?:true|:|exit)\s+(?:EXIT|0)\b"
)
_COMPARES: Final = r"(?:test|\[\[?|true|false|exit|return|diff|cmp|expr|assert\w*|command|builtin|eval|set|trap)"
_SHADOWS_SHELL: Final = re.compile(
    rf"^\s*(?:function\s+{_COMPARES}(?=[\s({{])|{_COMPARES}\s*\(\s*\))|(?:^|[;&|]\s*|\s)alias\s+(?:-\w+\s+)*{_COMPARES}="
)
_TEST_PATH: Final = r"[^'\"`\s]*(?:\btests?\b|\bspecs?\b|_tests?\b|\btest_|__tests__|\w(?:Test|Spec|Tests)\b)[^'\"`\s]*"
READS: Final = (
    r"(?:\breadFile(?:Sync)?|\bcreateReadStream|\breaddir(?:Sync)?|\bos\.(?:ReadFile|Open|ReadDir)|\bioutil\.Read(?:File|Dir)"
    r"|\bfilepath\.(?:Glob|Walk(?:Dir)?)|\binclude_(?:str|bytes)!|\bfs::read(?:_to_string|_dir)?|\bFile::open"
    r"|\bFiles\.(?:read\w+|lines|list|walk|newBufferedReader)|\bnew\s+(?:File|FileReader|FileInputStream|Scanner)"
    r"|\bPaths?\.(?:get|of)|\bparser\.ParseFile)"
)
"""What opens a file or lists a folder."""
_SOURCES: Final = r"[^'\"`]*(?:\*[^'\"`]*\.[cm]?[jt]sx?|\.go|\.rs|\.java|\.kt)"
_READS_TESTS: Final = re.compile(
    rf"{READS}\s*\(.{{0,120}}['\"`](?:{_TEST_PATH}|{_SOURCES})['\"`]|//go:embed\s+.*_test\b|\breaddir(?:Sync)?\(\s*(?:__dirname|process\.cwd\(\)|['\"]\.?/?['\"])\s*[,)]"
    rf"|\bClass\.forName\(\s*\"[\w.$]*Tests?\"|\breadFile(?:Sync)?\(\s*require\.main\.filename"
)
_READS_TESTS_SHELL: Final = re.compile(
    rf"\b(?:cat|grep|sed|awk|head|tail|cut|read|while|source|\.)\b.*[\s'\"<]{_TEST_PATH}\.(?:sh|bats|txt)\b|[\s\"](?:<|cat|grep|sed|awk)\b.*\"?\$0\b"
)
_RUNNERS: Final = re.compile(
    r"(?:\brequire\(|\bfrom|\bimport\(?)\s*['\"](?:node:test|vitest|@jest/globals|bun:test|mocha|ava|tap|uvu|jest-\w+|@vitest/\w+)['\"]"
)
_GO_RUNNER: Final = re.compile(
    r"^\s*(?:import\s+)?(?:[\w.]+\s+)?\"testing\"\s*$|\bos\.Args\s*=(?!=)|\bflag\.Set\(\s*\"test\."
)
_PROCESSES: Final = re.compile(
    r"[\"'`/]proc/(?:1|self/(?:cmdline|mounts?|mountinfo|environ|stat|status))\b|[\"'`]bwrap[\"'`]"
)
RULES: Final = (
    LineRule("runner-touched", _TOUCHES, change_words.RUNNER_TOUCHED, f"{_SCRIPT} .go"),
    LineRule("runner-touched", _TOUCHES_PYTHON, change_words.RUNNER_TOUCHED, "unread"),
    LineRule("report-forged", _FORGES, change_words.REPORT_FORGED, "any"),
    LineRule("test-detected", _DETECTS, change_words.TEST_DETECTED, "code"),
    LineRule("test-detected", _DETECTS_PYTHON, change_words.TEST_DETECTED, "unread"),
    LineRule("test-skipped", _SKIPS, change_words.TEST_SKIPPED, "tests"),
    LineRule("test-only", _ONLY, change_words.TEST_ONLY, "tests"),
    LineRule("assert-true", _ALWAYS_TRUE, change_words.ASSERT_TRUE, "tests"),
    LineRule("check-silenced", _SILENCED, change_words.CHECK_SILENCED, "any"),
    LineRule("early-exit", _LEAVES, change_words.EARLY_EXIT, f"{_SCRIPT} .go .rs .java .kt"),
    LineRule("early-exit", _LEAVES_PYTHON, change_words.EARLY_EXIT, "unread"),
    LineRule("exit-hooked", _HOOKS, change_words.EXIT_HOOKED, f"{_SCRIPT} .rs .java .kt"),
    LineRule("frame-read", _FRAMES, change_words.FRAME_READ, f"{_SCRIPT} .go .rs .java .kt unread"),
    LineRule("code-decoded", _DECODED, change_words.CODE_DECODED, f"{_SCRIPT} unread"),
    LineRule("early-exit", _ENDS_SHELL, change_words.EARLY_EXIT, _SHELL),
    LineRule("runner-touched", _SHADOWS_SHELL, change_words.RUNNER_TOUCHED, _SHELL),
    LineRule("runner-imported", _RUNNERS, change_words.RUNNER_TOUCHED, _SCRIPT),
    LineRule("runner-imported", _GO_RUNNER, change_words.RUNNER_TOUCHED, ".go"),
    LineRule("tests-read", _READS_TESTS, change_words.TESTS_READ, f"{_SCRIPT} .go .rs .java .kt"),
    LineRule("tests-read", _READS_TESTS_SHELL, change_words.TESTS_READ, _SHELL),
    LineRule("process-probed", _PROCESSES, change_words.PROCESS_PROBED, f"{_SCRIPT} .go .rs .java .kt {_SHELL}"),
    LineRule("failure-ignored", _IGNORES, change_words.FAILURE_IGNORED, "runs"),
    LineRule("job-disabled", _DISABLES, change_words.JOB_DISABLED, "workflow"),
    LineRule("tests-deselected", _DESELECTS, change_words.TESTS_DESELECTED, "runs"),
)


def is_comment(lines: Sequence[str], number: int) -> bool:
    """Whether a line of a language with braces is nothing but a comment that no compiler reads."""
    at = number - 1
    if _LINE_COMMENT.match(lines[at]):
        return True
    while at > 0 and _STARRED.match(lines[at]):
        at -= 1
    return at < number - 1 and _OPENS_COMMENT.match(lines[at]) is not None


def fold(text: str) -> str:
    """Join the texts that a line joins, and write members by their names: `a['b' + 'c']` is `a.bc`."""
    while True:
        folded = _PIECES.sub(r"\1\2\4\1", text)
        if folded == text:
            return _NAMED.sub(r".\2", text)
        text = folded


def leaves_from_main(lines: Sequence[str], number: int) -> bool:
    """Whether a line stands in what runs only when the file itself is started, where a program may end as it likes."""
    depth = _measure(lines[number - 1]) + 1
    for text in reversed(lines[:number]):
        if text.strip() and _measure(text) < depth:
            depth = _measure(text)
            if _MAIN.search(text):
                return sum(len(_CALLS_MAIN.findall(each)) for each in lines) <= 1
    return False


def _measure(text: str) -> int:
    return len(text.expandtabs(8)) - len(text.expandtabs(8).lstrip())
