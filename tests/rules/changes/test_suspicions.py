"""What a reviewer should see in a change, each by its rule."""

from __future__ import annotations

import pytest

from agenttalk.rules.changes.changed_files import ChangedFile
from agenttalk.rules.changes.suspicions import MOST, Suspicion, find_suspicions
from agenttalk.rules.core.scope import Globs, read_globs

NONE = Globs()


def file(path: str, before: str | None, after: str | None) -> ChangedFile:
    return ChangedFile(path, None if before is None else before.encode(), None if after is None else after.encode())


def rules(*files: ChangedFile, held: Globs = NONE) -> list[tuple[str, int]]:
    return [(each.id, each.line) for each in find_suspicions(files, held)]


@pytest.mark.parametrize(
    ("rule", "path", "line"),
    [
        ("test-skipped", "tests/test_a.py", "@pytest.mark.skip(reason='slow')"),
        ("test-skipped", "tests/test_a.py", "@pytest.mark.xfail"),
        ("test-skipped", "tests/test_a.py", "    self.skipTest('later')"),
        ("test-skipped", "src/a.test.ts", "it.skip('adds', () => {})"),
        ("test-skipped", "src/a.test.ts", "xdescribe('all', () => {"),
        ("test-skipped", "pkg/a_test.go", "\tt.Skip()"),
        ("test-skipped", "tests/a.rs", "#[ignore]"),
        ("test-skipped", "src/test/ATest.java", "@Disabled"),
        ("test-skipped", "conftest.py", "collect_ignore = ['test_a.py']"),
        ("test-only", "src/a.test.ts", "describe.only('all', () => {"),
        ("assert-true", "tests/test_a.py", "    assert True"),
        ("assert-true", "tests/test_a.py", "    self.assertTrue(True)"),
        ("assert-true", "src/a.test.ts", "  expect(true).toBe(true)"),
        ("check-silenced", "a.py", "import os  # noqa: F401"),
        ("check-silenced", "a.py", "x = 1  # type: ignore[attr-defined]"),
        ("check-silenced", "a.ts", "// eslint-disable-next-line"),
        ("check-silenced", "a.ts", "// @ts-ignore"),
        ("check-silenced", "a.go", "x() //nolint"),
        ("check-silenced", "a.rs", "#[allow(dead_code)]"),
        ("early-exit", "a.py", "    os._exit(0)"),
        ("early-exit", "a.py", "sys.exit(0)"),
        ("early-exit", "a.py", "raise SystemExit"),
        ("early-exit", "a.js", "process.exit(0)"),
        ("early-exit", "a.js", "process['rea' + 'llyEx' + 'it'](0)"),
        ("early-exit", "A.java", 'Runtime.class.getMethod("ha" + "lt", int.class).invoke(now, 0);'),
        ("early-exit", "a.rs", "    fn _exit(code: i32) -> !;"),
        ("test-detected", "a.go", 'func init() { os.Args = append(os.Args, "-te"+"st.run=^$") }'),
        ("runner-imported", "a.py", "import _pytest.python"),
        ("runner-touched", "a.py", "TestCase.assertEqual = lambda *a: None"),
        ("test-skipped", "src/lib.rs", "    #[ignore]"),
        ("report-forged", "a.py", "open('.agenttalk-tests.xml', 'w')"),
        ("test-detected", "a.py", "if 'pytest' in sys.modules:"),
        ("test-detected", "a.js", "if (process.env.NODE_ENV === 'test') {"),
        ("failure-ignored", "Makefile", "\tpytest || true"),
        ("failure-ignored", ".github/workflows/ci.yml", "    continue-on-error: true"),
        ("failure-ignored", "package.json", '  "test": "jest --passWithNoTests"'),
        ("failure-ignored", "run.sh", "exit 0"),
        ("job-disabled", ".gitea/workflows/ci.yml", "    if: false"),
        ("job-disabled", ".forgejo/workflows/ci.yaml", "    if: ${{ false }}"),
        ("job-disabled", ".gitlab-ci.yml", "  when: never"),
        ("tests-deselected", "tox.ini", "addopts = --deselect tests/test_a.py"),
        ("tests-deselected", "Makefile", "\tpytest -k 'not slow'"),
    ],
)
def test_each_rule_names_its_line(rule: str, path: str, line: str) -> None:
    assert (rule, 2) in rules(file(path, "# first\n", f"# first\n{line}\n"))
    assert rule not in {each for each, _ in rules(file(path, f"{line}\n", f"{line}\n# more\n"))}, "it was there before"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "@pytest.mark.skip"),
        ("a.py", "    sys.exit(main())"),
        ("a.py", "assert Trueish"),
        ("tests/test_a.py", "    assert True is flag()"),
        ("src/run.py", "if: false"),
        ("docs/a.md", "run it with || true"),
        (".github/workflows/ci.yml", "    if: github.ref == 'refs/heads/main'"),
    ],
)
def test_honest_lines_are_not_suspicious(path: str, line: str) -> None:
    assert rules(file(path, "first\n", f"first\n{line}\n")) == []


def test_files_that_decide_how_tests_run_are_named() -> None:
    assert rules(file("pkg/conftest.py", None, "")) == [("read-by-runner", 0)]
    assert rules(file("sitecustomize.py", None, "")) == [("read-by-runner", 0)]
    assert rules(file("pytest.ini", None, "[pytest]\n")) == [("tests-configured", 0)]
    assert rules(file("conftest.py", "", "x = 1\n")) == [("tests-configured", 0)]
    before, after = "[tool.pytest.ini_options]\n", "[tool.pytest.ini_options]\naddopts = '-q'\n"
    assert rules(file("pyproject.toml", before, after)) == [("tests-configured", 0)]
    assert rules(file("pyproject.toml", "[project]\n", "[project]\nname = 'x'\n")) == []
    assert rules(file("tests/test_a.py", "", None)) == [("test-file-removed", 0)]
    assert rules(file(".github/workflows/ci.yml", "on: push\n", None)) == [("job-disabled", 0)]
    assert rules(ChangedFile("tests/b/conftest.py", b"# noqa", b"# noqa", "tests/conftest.py")) == []
    assert rules(ChangedFile("tests/a.bin", b"\0", b"\0assert True")) == []


def test_assertions_that_are_gone_and_tests_that_are_there_twice_are_named() -> None:
    before = "def test_a():\n    assert total() == 3\n    x = 1\n"
    assert rules(file("tests/test_a.py", before, before.replace("== 3", "> 0"))) == [("assertion-changed", 2)]
    again = f"{before}\n\ndef test_a():\n    pass\n"
    assert rules(file("tests/test_a.py", before, again)) == [("test-redefined", 6)]
    assert rules(file("tests/test_a.py", before, before.replace("test_a()", "test_a( )"))) == []
    assert rules(file("tests/test_a.py", None, before)) == []


def test_steps_that_run_tests_and_are_gone_from_a_workflow_are_named() -> None:
    before = "jobs:\n  test:\n    steps:\n      - uses: a/test@v1\n      - run: pytest\n      - run: |\n          make test\n"
    after = "jobs:\n  test:\n    steps:\n      - run: echo\n"
    assert rules(file(".github/workflows/ci.yml", before, after)) == [("job-disabled", 5), ("job-disabled", 7)]
    assert rules(file(".github/workflows/ci.yml", None, before)) == []


def test_thresholds_that_are_lower_are_named() -> None:
    config = "[report]\nfail_under = {}\n"
    assert rules(file("cov.toml", config.format(90), config.format(80))) == [("threshold-lowered", 2)]
    assert rules(file("cov.toml", config.format(80), config.format(90))) == []
    assert rules(file("cov.toml", "", config.format(80))) == []


def test_what_is_about_a_held_file_stands_in_the_way_and_comes_first() -> None:
    held = read_globs(["tests/"])
    found = find_suspicions([file("a.py", "", "# noqa\n"), file("tests/test_a.py", "", "assert True\n")], held)
    assert [(each.id, each.refuses) for each in found] == [("assert-true", True), ("check-silenced", False)]
    forged = [file("a.py", "", "write('.agenttalk-tests.xml')\n")]
    assert [(each.refuses, each.grave) for each in find_suspicions(forged, NONE)] == [(False, True)]
    assert rules(file("tests/test_a.py", "", "os.environ['PYTEST_CURRENT_TEST']\n")) == []


def test_a_comparison_that_always_holds_is_named() -> None:
    always = file("a.py", "", "class A:\n    def __eq__(self, other):\n\n        return True\n")
    assert rules(always) == [("always-equal", 2)]
    assert [each.grave for each in find_suspicions([always], NONE)] == [True]
    assert rules(file("a.py", "", "def __eq__(self, other):\n    return self.x == other.x\n")) == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("frame-read", "import sys\ng = sys._getframe\ndef f():\n    return g(1)"),
        ("frame-read", "import sys as s\nx = getattr(s, '_get' + 'frame')(1)"),
        ("frame-read", "x = getattr(__import__('sys'), ''.join(['_get', 'frame']))(1)"),
        ("frame-read", "from inspect import stack as s\nx = s()"),
        ("frame-read", "import sys\nx = vars(sys)['_getframe'](1)"),
        ("frame-read", "import sys\nx = sys.__dict__['emarfteg_'[::-1]](1)"),
        ("frame-searched", "def f(frame):\n    return frame.f_back.f_locals['expected']"),
        ("frame-searched", "import gc\nx = gc.get_objects()"),
        ("runner-touched", "import builtins\nbuiltins.isinstance = lambda *a: True"),
        ("runner-touched", "setattr(__import__('builtins'), 'all', any)"),
        ("runner-touched", "__builtins__['len'] = max"),
        ("runner-touched", "import builtins\nvars(builtins).update(all=any)"),
        ("runner-touched", "import builtins\nbuiltins.__dict__['all'] = any"),
        ("runner-touched", "from unittest import TestCase as T\nT.assertEqual = print"),
        ("runner-touched", "import unittest\n(\n    unittest\n    .TestCase\n    .assertEqual\n) = print"),
        ("runner-touched", "import sys\nsys.settrace(print)"),
        ("runner-imported", "import importlib\nm = importlib.import_module('_pytest.' + 'runner')"),
        ("library-patched", "import math\nmath.isclose = lambda *a: True"),
        ("library-patched", "import time\ndel time.time"),
        ("library-patched", "from helpers import *\nmath.isclose = print"),
        ("library-patched", "import math, time\nmath.a, [time.time] = 1, [2]"),
        ("library-patched", "import time\ntime.x += 1"),
        ("modules-replaced", "import sys\nsys.modules['json'] = object()"),
        ("modules-replaced", "import sys\nsys.meta_path.insert(0, 1)"),
        ("test-detected", "import os\nx = os.environ.get('PYTEST_' + 'CURRENT_TEST')"),
        ("test-detected", "import os\nx = 'PYTEST_VERSION' in os.environ"),
        ("test-detected", "import os\nx = os.getenv('AGENTTALK_ROOT')"),
        ("test-detected", "import sys\nx = sys.modules.get('pytest')"),
        ("test-detected", "import sys\nx = 'pytest' in sys.argv[0]"),
        ("place-probed", "import os\nx = os.path.exists('.git')"),
        ("place-probed", "import os\nx = 'CI' in os.environ"),
        ("place-probed", "import getpass\nx = getpass.getuser()"),
        ("early-exit", "import os\nos._exit(0)"),
        ("early-exit", "from os import _exit as e\ne(0)"),
        ("early-exit", "import os\nos.kill(os.getpid(), 9)"),
        ("early-exit", "import sys\nif sys:\n    sys.exit(0)"),
        ("early-exit", "try:\n    raise SystemExit(0)\nfinally:\n    pass"),
        ("exit-hooked", "import atexit\natexit.register(print)"),
        ("always-equal", "class A:\n    def __eq__(self, o): return not False"),
        ("always-equal", "class A:\n    __eq__ = lambda self, o: 1 == 1"),
        ("always-equal", "A = type('A', (), {'__eq__': lambda s, o: True})"),
        ("always-equal", "class A: ...\nsetattr(A, '__eq__', lambda s, *o: True)"),
        ("clock-compared", "import time\nx = time.time() > 1.7e9"),
        ("network-used", "import urllib.request\nx = urllib.request.urlopen('http://a')"),
        ("code-decoded", "import base64\nexec(base64.b64decode('cHJpbnQoMSk='))"),
        ("code-decoded", "import zlib\nx = zlib.decompress(b'')\ny: str = x.decode()\nexec(compile(y, '', 'exec'))"),
        ("code-decoded", "import marshal\nx = marshal.loads(b'')"),
        ("code-decoded", "eval(''.join(chr(n) for n in [49]))"),
        ("code-decoded", "exec(bytes.fromhex('31'))"),
        ("code-decoded", "exec('1'.translate({}))"),
        ("code-decoded", "a = zlib.decompress\nimport zlib\nb = a\nc = b\nexec(c(d))"),
        ("test-detected", "import sys\nx = 'pytest' in sys.modules"),
        ("frame-read", "import sys\nx = sys.modules['sys']._getframe(1)"),
        ("test-detected", "import os\nx = os.getenv(f'PYTEST_{\"VERSION\"}')"),
        ("test-detected", "import os\nx = os.environ.get(b'PYTEST_VERSION'.decode())"),
        ("runner-touched", "import builtins\nx = 'al'\nsetattr(builtins, x + 'l', any)"),
        ("state-kept", "answers = iter([1, 2])\ndef f(x):\n    return next(answers)"),
        ("state-kept", "import os, tempfile\np = os.path.join(tempfile.gettempdir(), 'seen')"),
        ("state-kept", "from pathlib import Path\nimport tempfile\np = Path(tempfile.gettempdir()) / 'seen'"),
        ("code-executed", "def f(text):\n    exec(text)"),
    ],
)  # fmt: skip
def test_python_is_read_from_its_syntax(rule: str, text: str) -> None:
    assert rule in {each for each, _ in rules(file("pkg/a.py", "", f"{text}\n"))}


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nsys.modules[__name__] = object()",
        "import sys\nsys.modules.setdefault(__name__ + '.x', 1)",
        "import sys\nsys.stdout = sys.stderr",
        "import os\nos.environ['A'] = '1'",
        "import os\nos.kill(pid(), 9)",
        "class A:\n    def __eq__(self, other):\n        return NotImplemented",
        "class A:\n    def __eq__(self, other):\n        return self is other",
        "class A:\n    def __eq__(self, other):\n        if other is None:\n            return True\n        return x(other)",
        "class A:\n    def __eq__(self, other): ...",
        "import base64\nx = base64.b64decode('aGk=')",
        "exec('x = 1')",
        "import re\nx = re.compile(pattern)",
        "if __name__ == '__main__':\n    raise SystemExit(0)",
        "import sys\ndef main():\n    sys.exit(0)",
        "import time\nstarted = time.time()\nx = time.time() - started > limit",
        "import os\nx = os.environ.get('HOME')",
        "self.value = [a.b[c](d) for a in e]\ndel self.value[0]\nx: int\nx = {**y, 'a': 1}",
        "import math as m\nm2 = m\nx = m2.pi[0] + f'{x}{1}' + ' '.join([y])",
        "a = b\nb = a\na.x = 1\nexec('1')",
        "from . import thing\nthing.member = 1",
        "import sys\na = b\nb = a\nx = getattr(sys, a)",
        "import os\na = a + 'b'\nx = os.getenv(a)",
        "x = {'__eq__': f}",
        "def f(token):\n    token.value = token.value.strip()",
        "import functools\nwraps = functools.wraps\nwraps.__doc__ = 'x'",
        "import typing as t\ndef f(t):\n    t.value = 1",
        "rows = iter(read())\nx = next(rows)\ny = next(iter([1]))\nz = iter()\nnext(z)",
        "from pathlib import Path\nimport tempfile\np = Path(tempfile.gettempdir()) / name / other",
    ],
)  # fmt: skip
def test_honest_python_is_not_suspicious(text: str) -> None:
    assert rules(file("pkg/a.py", "", f"{text}\n")) == []


def test_a_place_counts_when_one_of_its_lines_is_new() -> None:
    before = "import math\nmath.isclose = (\n    print\n)\n"
    assert rules(file("a.py", before, before + "x = 1\n")) == []
    assert rules(file("a.py", before, before.replace("print", "all"))) == [("library-patched", 2)]


def test_tests_may_do_what_tests_do_every_day() -> None:
    text = "import time, _pytest.python\ntime.time = lambda: 0\n"
    assert rules(file("tests/test_a.py", None, text)) == []
    assert rules(file("tests/test_a.py", None, "import builtins\nbuiltins.all = any\n")) == [("runner-touched", 2)]


@pytest.mark.parametrize(
    ("rule", "path", "line"),
    [
        ("runner-touched", "a.js", "assert.strictEqual = () => {}"),
        ("runner-touched", "a.ts", "globalThis.expect = fake"),
        ("runner-touched", "a.js", "Object.prototype.valueOf = one"),
        ("frame-read", "a.js", "Error.prepareStackTrace = f"),
        ("frame-read", "a.go", "\truntime.Callers(0, pc)"),
        ("frame-read", "A.java", "Thread.currentThread().getStackTrace()"),
        ("code-decoded", "a.js", "eval(atob('YQ=='))"),
        ("early-exit", "a.go", "\tos.Exit(0)"),
        ("early-exit", "a.rs", "std::process::exit(0)"),
        ("early-exit", "A.java", "Runtime.getRuntime().halt(0);"),
        ("exit-hooked", "a.js", "process.on('exit', f)"),
        ("always-equal", "A.java", "public boolean equals(Object o) { return true; }"),
        ("always-equal", "a.rs", "fn eq(&self, _: &Self) -> bool { true }"),
        ("test-detected", "a.go", "if testing.Testing() {"),
        ("test-detected", "a.rs", "if cfg!(test) {"),
        ("early-exit", "old.py", "print 1; os._exit(0)"),
        ("frame-read", "old.py", "print sys._getframe(1)"),
    ],
)
def test_other_languages_and_python_that_cannot_be_read_have_rules_of_lines(rule: str, path: str, line: str) -> None:
    assert rule in {each for each, _ in rules(file(path, "", f"{line}\n"))}


def test_a_program_of_another_language_may_end_itself_where_programs_begin() -> None:
    for path, grave in {"cmd/serve/run.go": False, "main.rs": False, "src/a.go": True, "bin/a.py": True}.items():
        line = "import os; os._exit(0)" if path.endswith(".py") else "std::process::exit(0); os.Exit(0)"
        assert [each.grave for each in find_suspicions([file(path, "", line)], NONE)] == [grave]


def test_what_nobody_can_read_and_snapshots_are_named() -> None:
    assert rules(ChangedFile("pkg/a.pyc", None, b"\0")) == [("binary-code", 0)]
    assert rules(file("src/__snapshots__/a.snap", "1", "2")) == [("snapshot-changed", 0)]
    deep = "x = " + "-" * 5000 + "1\n"
    assert rules(file("a.py", None, deep)) == []
    assert rules(file("a.py", None, "x = 1" + "+1" * 3000 + "\n")) == []


def test_no_change_drowns_the_page() -> None:
    found = find_suspicions([file("a.py", "", "# noqa \x1b[31m\n" * 999)], NONE)
    assert len(found) == MOST
    assert isinstance(found[0], Suspicion)
    assert "\x1b" not in found[0].message


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        (
            "A.java",
            "class A {\n    static void main(String[] words) {\n        if (x) {\n\n            System.exit(0);\n",
            False,
        ),
        (
            "A.java",
            "class A {\n    static { main(null); }\n    static void main(String[] w) {\n        System.exit(0);\n",
            True,
        ),
        (
            "A.java",
            "class A {\n    static void main(String[] w) {\n    }\n    static {\n        System.exit(0);\n",
            True,
        ),
        ("a.js", "if (require.main === module) {\n  process.exit(0);\n}\n", False),
        ("a.js", "if (require.main === module) {\n}\nprocess.exit(0);\n", True),
        ("a.go", "func main() {\n\tos.Exit(0)\n}\n", False),
        ("a.rs", "fn main() {\n    std::process::exit(0)\n}\n", False),
    ],
)
def test_a_program_may_end_where_only_its_start_leads(path: str, text: str, told: bool) -> None:
    assert [name for name, _ in rules(file(path, None, text)) if name == "early-exit"] == ["early-exit"] * told
