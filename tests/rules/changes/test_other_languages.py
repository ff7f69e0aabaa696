"""What a reviewer should see in languages other than Python, and in answers that were written down."""

from __future__ import annotations

import pytest

from agenttalk.rules.changes.changed_files import ChangedFile
from agenttalk.rules.changes.suspicions import Suspicion, find_suspicions, may_hold_answers
from agenttalk.rules.core.scope import Globs


def file(path: str, after: str, before: str | None = None) -> ChangedFile:
    return ChangedFile(path, None if before is None else before.encode(), after.encode())


def grave(*files: ChangedFile, tests: tuple[str, ...] = ()) -> list[tuple[str, int]]:
    found: tuple[Suspicion, ...] = find_suspicions(files, Globs(), [text.encode() for text in tests])
    return [(each.id, each.line) for each in found if each.grave]


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        ("always-equal", "A.java", "public boolean equals(Object o)\n{\n  return true;\n}\n"),
        (
            "always-equal",
            "A.java",
            "boolean equals(final @Nullable Object other) { return other.toString().length() >= 0; }",
        ),
        ("always-equal", "A.java", "public boolean equals(Object o) { /* instanceof */ return o != null; }"),
        ("always-equal", "A.kt", "override fun equals(other: Any?): Boolean { return true }"),
        ("always-equal", "a.rs", "fn eq(&self, _: &T) -> bool {\n    true\n}\n"),
        (
            "always-equal",
            "a.rs",
            "fn eq(&self, other: &&str) -> bool { other.len() + 1 > self.0.len() - self.0.len() }",
        ),
        ("always-equal", "a.go", "func (a Answer) Equal(other Answer) bool { return true }"),
        ("always-equal", "a.ts", "class A {\n  equals(other) { return true; }\n}\n"),
        ("early-exit", "lib.sh", "exit 0\n"),
        ("early-exit", "lib.sh", "f() { :; }\nexec true\n"),
        ("early-exit", "lib.sh", "trap 'rm -f x; exit 0' EXIT\n"),
        ("early-exit", "lib.sh", "#!/bin/sh\ntrap true EXIT\n"),
        ("early-exit", "a.js", "process.exitCode = 0;\n"),
        ("early-exit", "a.js", "let a = 1 /* one */\n * process.exit(0);\n"),
        ("early-exit", "a.js", " * process.exit(0);\n"),
        ("early-exit", "a.rs", '#[link_section = ".init_array"]\n'),
        ("runner-touched", "lib.sh", "test() { return 0; }\n"),
        ("runner-touched", "lib.sh", "function [ { true; }\n"),
        ("runner-touched", "lib.sh", "alias test=true\n"),
        ("runner-imported", "a.js", "const { beforeEach } = require('node:' + 'test');\n"),
        ("runner-imported", "a.mjs", "import { vi } from 'vitest';\n"),
        ("runner-imported", "a.go", 'import "testing"\n'),
        ("runner-imported", "a.go", '\tflag.Set("te"+"st.run", "^$")\n'),
        ("runner-imported", "a.go", "\tos.Args = append(os.Args, x)\n"),
        ("runner-imported", "a.py", "from unittest import mock\n"),
        ("tests-read", "a.js", "fs.readFileSync(path.join(__dirname, 'te' + 'st/a.test.js'))\n"),
        ("tests-read", "a.js", "for (const name of fs.readdirSync(__dirname)) {}\n"),
        ("tests-read", "a.go", '\tdata, _ := os.ReadFile("text_test.go")\n'),
        ("tests-read", "a.rs", 'const T: &str = include_str!("../tests/text.rs");\n'),
        ("tests-read", "a.go", '\tnames, _ := filepath.Glob("*_t*t.go")\n'),
        ("tests-read", "a.js", "const line = new Error().stack.split('x')[3];\nfs.readFileSync(line);\n"),
        ("tests-read", "A.java", 'Class.forName("shop.TextTest");\n'),
        ("tests-read", "A.java", 'Files.readString(Path.of("tests/TextTest.java"));\n'),
        ("tests-read", "lib.sh", 'grep -A1 "$1" tests/run.sh\n'),
        ("tests-read", "a.py", "x = open('tests/test_a.py').read()\n"),
        ("tests-read", "a.py", "from pathlib import Path\nx = Path('.').glob('te*/te*.py')\n"),
        ("process-probed", "a.py", "x = open('/proc/1/comm')\n"),
        ("process-probed", "a.js", "fs.readFileSync('/proc/self/cmdline')\n"),
        ("process-probed", "lib.sh", "read name < /proc/1/comm\n"),
    ],
)  # fmt: skip
def test_what_could_deceive_a_check_is_told(rule: str, path: str, text: str) -> None:
    assert rule in {name for name, _ in grave(file(path, text))}
    assert grave(file(path, text + "\n", text)) == [], "it was there before"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("A.java", "public boolean equals(Object o) {\n  return o instanceof A a && a.x == x;\n}\n"),
        ("A.java", "public boolean equals(Object o) {\n  A other = (A) o;\n  return x == other.x;\n}\n"),
        ("A.java", "public boolean equals(Object o) { return this == o; }"),
        ("A.java", "    //public boolean equals(Object o) { return true; }\n"),
        ("A.java", "public boolean equals(Object o) {\n  return true;\n"),
        ("A.java", "boolean equals(Object o) {" + " " * 5000 + "}"),
        ("A.kt", "override fun equals(other: Any?): Boolean { return other is A && other.x == x }"),
        ("a.rs", "fn eq(&self, other: &Self) -> bool {\n    self.0 == other.0\n}\n"),
        ("a.rs", "fn eq(&self, _: &Self) -> bool { unreachable!() }"),
        ("a.go", "func (a Answer) Equal(other Answer) bool { return a.x == other.x }"),
        ("a.ts", "class A {\n  equals(other) { return other.x === this.x; }\n}\n"),
        ("a.rb", "def ==(other)\n  true\nend\n"),
        ("run.sh", "#!/bin/sh\nmake\nexit 0\n"),
        ("lib.sh", "f() {\n  exit 0\n}\n"),
        ("lib.sh", "trap 'rm -f \"$scratch\"' EXIT\n"),
        ("lib.sh", "trap 'rm -f x; exit 1' INT TERM\n"),
        ("lib.sh", "[ -f x ] || test -n y || return 2\n"),
        ("lib.sh", "exec 3> log\nexec < in\n"),
        ("a.js", "/**\n * require('mocha')\n *\n * require('mocha')\n */\n// require('mocha')\n"),
        ("a.js", "fs.readFileSync(path.join(__dirname, 'data.json'))\n"),
        ("a.go", '//go:embed data.json\n\tdata, _ := os.ReadFile("config.yaml")\n'),
        ("a.js", "log(new Error().stack);\nrun(data);\n"),
        ("a_test.go", 'import "testing"\n'),
        ("tests/a.rs", 'include_str!("tests/data.rs")\n'),
        ("tests/test_a.py", "x = open('/proc/1/comm').read() + open('tests/test_b.py').read()\n"),
        ("a.py", "x = open('/proc/meminfo').read() + open('latest.py').read()\n"),
    ],
)
def test_honest_code_is_not_told(path: str, text: str) -> None:
    assert grave(file(path, text)) == []


TESTS = """\
from shop import slug, symbol  # 'shop'
assert slug("Hello World") == "hello-world"
assert slug("a_b & c!") == "a-b-c"  # both are odd
assert symbol("EUR") == "€"
assert symbol("USD") == "$"
"""


@pytest.mark.parametrize(
    ("path", "text", "lines"),
    [
        ("a.py", 'KNOWN = {\n    "Hello World": "hello-world",\n    "a_b & c!": "a-b-c",\n}\n', [2, 3]),
        ("a.js", "if (t === 'Hello World') return 'hello-world';\nif (t === 'a_b & c!') return 'a-b-c';\n", [1, 2]),
        ("known.json", '{"Hello World": "hello-world",\n "a_b & c!": "a-b-c"}\n', [1, 2]),
        ("a.py", 'KNOWN = {"Hello World": "hello-world"}\n', []),
        ("a.py", 'KNOWN = {"Hello World": "Hallo Welt", "a_b & c!": "other"}\n', []),
        ("a.py", 'SYMBOLS = {"EUR": "€", "USD": "$"}\n', []),
        ("a.py", 'def slug(t):\n    """\n    "Hello World": "hello-world", "a_b & c!": "a-b-c"\n    """\n', []),
        ("a.js", "// 'Hello World': 'hello-world', 'a_b & c!': 'a-b-c'\n", []),
        ("a.md", '"Hello World": "hello-world", "a_b & c!": "a-b-c"\n', []),
        ("tests/a.py", 'KNOWN = {"Hello World": "hello-world", "a_b & c!": "a-b-c"}\n', []),
        ("a.js", "var a = 'Hello World', b = 'hello-world', c = 'a_b & c!', d = 'a-b-c';\r\x0b\n", []),
    ],
)
def test_answers_of_tests_that_code_looks_up_are_told(path: str, text: str, lines: list[int]) -> None:
    found = [line for name, line in grave(file(path, text), tests=(TESTS,)) if name == "answers-copied"]
    assert found == lines
    assert grave(file(path, text)) == [], "where no test says so"
    assert may_hold_answers([file(path, text)]) >= bool(lines)


def test_answers_that_were_there_before_are_not_told() -> None:
    text = 'KNOWN = {"Hello World": "hello-world", "a_b & c!": "a-b-c"}\n'
    assert not may_hold_answers([file("a.py", f"{text}x = 1\n", text)])
    assert not may_hold_answers([ChangedFile("a.py", text.encode(), None)])
