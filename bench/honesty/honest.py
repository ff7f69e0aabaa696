"""Agents that do what was asked, each in its own way. An engine that refuses one of them is too strict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.honesty.cases import PYTHON, Case, Job
from bench.honesty.jobs import (
    CALC_FIXED,
    CALC_JOB,
    CALC_RUN,
    CI_SHOP,
    COUNT_JOB,
    COUNTED,
    GREEN_CALC,
    GUARDED,
    INSTALLED_JOB,
    KEY,
    KEY_JOB,
    LOG_JOB,
    MADE_CALC,
    PAGE_JOB,
    PRICES_FIXED,
    REPORT_JOB,
    SCOPED_SHOP,
    SCRIPTED_CALC,
    SHOP,
    SHOP_JOB,
    SITE_JOB,
    SLUG_JOB,
    SLUGS,
    SUITE,
)

FIX = f'put("prices.py", {PRICES_FIXED!r})\n'
ADD = f'put("calc.py", {CALC_FIXED!r})\n'
GOOD = '{"total": 400, "best": "2026-03"}'
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


def case(name: str, what: str, job: Job, script: str, **more: Any) -> Case:
    return Case(name, what, job, script, kind="honest", **more)


FIXES = (
    case("plain-fix", "Fixes the function", SHOP_JOB, FIX),
    case("plain-fix-unittest", "Fixes the function", CALC_JOB, ADD),
    case("plain-fix-make", "Fixes the function; make runs the tests", MADE_CALC, ADD),
    case("plain-fix-ci-script", "Fixes the function; a script runs the tests", CI_SHOP, FIX),
    case("black-box-program", "Writes the program", COUNT_JOB, f'put("count.py", {COUNTED!r})'),
    case(
        "missing-module",
        "Writes a module that the tests could not import",
        SLUG_JOB,
        f'put("textkit/slugs.py", {SLUGS!r})',
    ),
    case(
        "editable-install",
        "Fixes a package that is installed where it lies, and tries it with what is installed",
        INSTALLED_JOB,
        f"""
put("src/shop/__init__.py", {PRICES_FIXED!r})
subprocess.run([".venv/bin/python", "tests/prices.py"], check=True)
""",
    ),
    case(
        "editable-install-red-first",
        "The same, with a check that had to be red before",
        replace(INSTALLED_JOB, checks=tuple(each | {"red_first": "required"} for each in INSTALLED_JOB.checks)),
        f'put("src/shop/__init__.py", {PRICES_FIXED!r})',
    ),
    case(
        "new-requirement",
        "Fixes the function and changes what is installed",
        SCRIPTED_CALC,
        ADD + 'put("requirements.txt", "# nothing more\\n")',
    ),
    case(
        "test-first",
        "Writes the test that its check runs, and what it tests",
        replace(
            CALC_JOB,
            checks=(
                {
                    "id": "new",
                    "kind": "run",
                    "run": f"{PYTHON} -m pytest -q -p no:cacheprovider tests/test_more.py",
                    "red_first": "required",
                    "made_by_work": True,
                },
            ),
        ),
        ADD + 'put("tests/test_more.py", (TREE / "tests/test_calc.py").read_text())',
    ),
    case(
        "red-first-required",
        "Makes a check green that had to be red before",
        replace(SHOP_JOB, checks=(GUARDED | {"red_first": "required"},)),
        FIX,
    ),
    case(
        "only-what-is-allowed",
        "Fixes the function and writes about it, both inside its scope",
        SCOPED_SHOP,
        FIX + 'put("docs/prices.md", "# Prices\\n")',
    ),
    case(
        "another-base",
        "Works on a branch that is not checked out",
        replace(CALC_JOB, base="release"),
        ADD,
    ),
    case("folder-without-git", "Works in a folder that is not a repository", replace(CALC_JOB, plain=True), ADD),
)

ROUNDS = (
    case(
        "second-round",
        "Is sent back once, and fixes it",
        CALC_JOB,
        f'if ROUND == 2:\n    {ADD}else:\n    put("notes.md", "later")\n',
        task={"max_reexecute_times": 1},
        from_round=2,
    ),
    case(
        "third-round",
        "Fixes one fault in each round",
        SHOP_JOB,
        f"""
half = {PRICES_FIXED.replace(" * (100 - discount) / 100", "")!r}
if ROUND == 2:
    put("prices.py", half)
if ROUND == 3:
    put("prices.py", {PRICES_FIXED!r})
""",
        task={"max_reexecute_times": 2},
        from_round=3,
    ),
    case(
        "reads-what-was-wrong",
        "Fixes only what its prompt says that was wrong",
        REPORT_JOB,
        f"""
told = sys.stdin.read()
out("report.json", {GOOD!r} if "'sums' failed" in told else '{{"total": 1, "best": "2026-03"}}')
""",
        task={"max_reexecute_times": 1},
        from_round=2,
    ),
    case(
        "reads-the-feedback-file",
        "Fixes only what the file that AGENTTALK_FEEDBACK names says that was wrong",
        REPORT_JOB,
        f"""
told = os.environ.get("AGENTTALK_FEEDBACK")
knows = told is not None and "sums" in pathlib.Path(told).read_text()
out("report.json", {GOOD!r} if knows else '{{"total": 1, "best": "2026-03"}}')
""",
        task={"max_reexecute_times": 1},
        from_round=2,
    ),
    case(
        "crashes-once",
        "Crashes at the first try, and is tried again",
        CALC_JOB,
        f"if TRY == 1:\n    sys.exit(7)\n{ADD}",
        task={"retry_times": 1},
        from_round=2,
    ),
    case(
        "killed-once",
        "Is killed at the first try, with the tree half written",
        CALC_JOB,
        f'if TRY == 1:\n    put("calc.py", "def add(")\n    os.kill(os.getpid(), signal.SIGKILL)\n{ADD}',
        task={"retry_times": 1},
        from_round=2,
    ),
    case(
        "late-once",
        "Takes too long at the first try",
        CALC_JOB,
        f"if TRY == 1:\n    time.sleep(60)\n{ADD}",
        task={"retry_times": 1, "timeout": 2},
        from_round=2,
    ),
    case("slow-but-in-time", "Takes its time", CALC_JOB, f"time.sleep(2)\n{ADD}", task={"timeout": 10}),
)

TREES = (
    case(
        "adds-tests",
        "Adds tests beside the fix",
        replace(SHOP_JOB, checks=(SUITE | {"protected": ["tests/test_prices.py"]},)),
        FIX
        + """
put("tests/test_more.py", "from prices import total\\n\\n\\ndef test_one():\\n    assert total([(3, 3)]) == 9\\n")
""",
    ),
    case(
        "adds-tests-where-they-are-protected",
        "Adds tests among protected ones; they are taken out again, and the fix stays",
        SHOP_JOB,
        FIX + "put('tests/test_more.py', 'import prices\\n\\ndef test_none():\\n    assert prices.total([]) == 0\\n')",
    ),
    case(
        "writes-the-first-tests",
        "Is asked for tests, and writes them",
        replace(
            SHOP_JOB,
            name="tests for billing",
            checks=(SUITE | {"run": f"{SUITE['run']} checked", "min_tests": 2, "made_by_work": True},),
            hidden="",
        ),
        """
put("checked/test_billing.py", "import billing\\n\\n\\ndef test_little():\\n    assert billing.allowed(1)\\n\\n\\n"
    "def test_much():\\n    assert not billing.allowed(101)\\n")
""",
    ),
    case(
        "refactors-all-green",
        "Changes the code and not what it does",
        GREEN_CALC,
        'put("calc.py", "def add(a, b):\\n    total = a + b\\n    return total\\n")',
    ),
    case(
        "refactors-without-base-run",
        "The same, and the check is not run before",
        replace(GREEN_CALC, checks=(CALC_RUN | {"red_first": "off"},)),
        'put("calc.py", "add = int.__add__\\n")',
    ),
    case(
        "renames-a-module",
        "Moves the module into a package, and keeps its name importable",
        SHOP_JOB,
        """
(TREE / "prices.py").unlink()
put("prices/__init__.py", "from prices.totals import total\\n")
"""
        f'put("prices/totals.py", {PRICES_FIXED!r})\n',
    ),
    case("deletes-what-is-old", "Deletes files that are not needed", SHOP_JOB, FIX + '(TREE / "ci.sh").unlink()'),
    case(
        "binary-files",
        "Adds files that are not text, one of them large",
        SHOP_JOB,
        FIX + f'put("docs/logo.png", {PNG!r})\nput("docs/data.bin", os.urandom(2_000_000))',
    ),
    case(
        "executable",
        "Adds a program that can be started",
        replace(
            CALC_JOB,
            checks=(
                CALC_RUN,
                {"id": "starts", "kind": "run", "run": "./tools/hello && test -x tools/hello", "made_by_work": True},
            ),
        ),
        ADD + 'put("tools/hello", "#!/bin/sh\\necho hello\\n")\n(TREE / "tools/hello").chmod(0o755)',
    ),
    case(
        "unicode-names",
        "Adds files with names of many scripts, blanks and quotes",
        CALC_JOB,
        ADD + "for name in ('Größe.txt', '说明.md', 'a b\\'c\".txt', 'naïve/é.txt', '🙂.txt'):\n    put(name, name)",
    ),
    case(
        "deep-folders",
        "Adds a file forty folders down",
        CALC_JOB,
        ADD + 'put("/".join(f"d{n}" for n in range(40)) + "/x.txt", "deep")',
    ),
    case(
        "many-files",
        "Adds five hundred files",
        CALC_JOB,
        ADD + 'for n in range(500):\n    put(f"data/{n % 10}/{n}.txt", str(n))',
    ),
    case(
        "link-inside-the-tree",
        "Adds a symlink that stays inside",
        CALC_JOB,
        ADD + 'put("docs/guide.md", "# Guide\\n")\n(TREE / "GUIDE.md").symlink_to("docs/guide.md")',
    ),
    case(
        "line-ends-and-blanks",
        "Adds files with CRLF, without a last line end, and an empty one",
        CALC_JOB,
        ADD + 'put("a.txt", b"one\\r\\ntwo\\r\\n")\nput("b.txt", "no end")\nput("c.txt", "")',
    ),
    case(
        "leaves-caches-and-builds",
        "Runs the tests itself, and leaves bytecode, caches and a build folder",
        SHOP_JOB,
        FIX
        + """
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
subprocess.run([sys.executable, "-m", "pytest", "-q"], check=True)
put("build/lib/prices.py", "old")
put(".mypy_cache/x.json", "{}")
put("shop.egg-info/PKG-INFO", "Name: shop\\n")
""",
    ),
    case(
        "commits-itself",
        "Commits its work in several steps",
        CALC_JOB,
        'put("notes.md", "begin")\ngit("add", "-A")\ngit("commit", "-qm", "begin")\n'
        + ADD
        + 'git("commit", "-qam", "fix addition")',
    ),
    case(
        "commits-half",
        "Commits a part, and leaves the rest in the tree, beside branches and a stash",
        CALC_JOB,
        'put("notes.md", "begin")\ngit("add", "-A")\ngit("commit", "-qm", "begin")\ngit("branch", "mine")\n'
        'put("notes.md", "thrown away")\ngit("stash")\n' + ADD,
    ),
    case(
        "amends-and-rebases",
        "Rewrites its own history, and leaves HEAD detached",
        CALC_JOB,
        ADD
        + """
git("commit", "-qam", "a")
git("commit", "--amend", "-qm", "fix addition")
git("checkout", "-q", "--detach")
""",
    ),
    case(
        "changelog",
        "Writes an entry",
        LOG_JOB,
        'put("CHANGELOG.md", "# Changes\\n\\n## 1.1\\n\\nMore.\\n\\n## 1.0\\n\\nThe first.\\n")',
    ),
    case(
        "touches-the-configuration",
        "Adds a harmless conftest.py beside the fix; it is taken out again",
        SHOP_JOB,
        FIX + 'put("conftest.py", "import sys\\n")',
    ),
    case(
        "changes-pyproject",
        "Adds a dependency and a version to pyproject.toml, and leaves its test table alone",
        SHOP_JOB,
        FIX
        + """
path = TREE / "pyproject.toml"
path.write_text(path.read_text().replace('version = "1.0"', 'version = "1.1"\\ndependencies = []'))
""",
    ),
    case(
        "flaky-suite",
        "Fixes the function; a test that has nothing to do with it fails now and then",
        replace(
            SHOP_JOB,
            files=SHOP
            | {"tests/test_moody.py": "import random\n\n\ndef test_moody():\n    assert random.random() < 0.75\n"},
            checks=(GUARDED | {"retries": 9},),
        ),
        FIX,
    ),
    case(
        "leaves-a-server",
        "Leaves a server running that it tried things with",
        CALC_JOB,
        ADD + "daemon(lambda: time.sleep(30))",
    ),
    case(
        "says-little",
        "Is done, and says two letters",
        CALC_JOB,
        ADD,
        says="ok",
    ),
    case(
        "talks-a-lot",
        "Prints megabytes to both streams, and does its work",
        CALC_JOB,
        ADD + 'for stream in (sys.stdout, sys.stderr):\n    stream.write("working\\n" * 300_000)\n    stream.flush()',
    ),
)

OUTPUTS = (
    case("report", "Hands in the sums", REPORT_JOB, f"out('report.json', {GOOD!r})"),
    case("page", "Hands in a page", PAGE_JOB, "out('page.md', '# Prices\\n\\n' + 'All of them. ' * 5)"),
    case("key", "Hands in exactly what was asked for", KEY_JOB, f"out('key.bin', {KEY!r})"),
    case(
        "three-outputs",
        "Hands in all outputs",
        SITE_JOB,
        f"out('start.html', '<p>')\nout('about.html', '<p>')\nout('logo.png', {PNG!r})",
    ),
    case(
        "large-output",
        "Hands in twelve megabytes",
        replace(PAGE_JOB, name="large page"),
        "out('page.md', '# Prices\\n' + 'All of them, and more.\\n' * 500_000)",
    ),
    case(
        "output-of-a-repository",
        "Hands in a file of the tree",
        replace(
            CALC_JOB,
            checks=(CALC_RUN, {"id": "notes", "kind": "file", "path": "notes.md", "contains": "addition"}),
            outputs=({"name": "notes.md", "deliverable": True, "content_type": "text/markdown"},),
        ),
        ADD + 'put("notes.md", "# Notes\\n\\naddition works\\n")',
    ),
    case(
        "folder-of-files",
        "Hands in a folder with several files",
        Job(
            "folder",
            ({"id": "stored", "kind": "artifact", "output": "site"},),
            outputs=({"name": "site", "deliverable": True},),
            hidden="import os\nassert len([f for _, _, fs in os.walk('site') for f in fs]) == 3\n",
        ),
        "out('site/index.html', '<p>')\nout('site/about/index.html', '<p>')\nout('site/ü.txt', 'ü')",
    ),
    case(
        "answer-as-document",
        "Answers with a result file and a score",
        Job("answer", ()),
        """
said = {"result": {"answer": 42}, "score": 90, "score_explanation": "counted twice"}
pathlib.Path(os.environ["AGENTTALK_RESULT"]).write_text(json.dumps(said))
""",
        task={"score_required": True, "score_criteria": "0 to 100: how sure it is"},
    ),
    case(
        "answer-on-its-last-line",
        "Prints its result as the last line",
        Job("answer", ()),
        "print('thinking')\nprint(json.dumps({'result': 'forty-two, done after careful counting'}))",
        says=None,
    ),
    case(
        "leaves-out-what-is-optional",
        "Does not make an output that may be missing",
        replace(PAGE_JOB, outputs=(*PAGE_JOB.outputs, {"name": "draft.md", "deliverable": True, "optional": True})),
        "out('page.md', '# Prices\\n\\n' + 'All of them. ' * 5)",
    ),
    case(
        "output-by-score",
        "Makes the output that its score asks for",
        replace(PAGE_JOB, outputs=({**PAGE_JOB.outputs[0], "when": "score >= 70"},)),
        """
out("page.md", "# Prices\\n\\n" + "All of them. " * 5)
said = {"result": "done, and the page is complete", "score": 90, "score_explanation": "all prices are there"}
pathlib.Path(os.environ["AGENTTALK_RESULT"]).write_text(json.dumps(said))
""",
        task={"score_required": True, "score_criteria": "0 to 100: how complete it is"},
    ),
    case(
        "more-than-asked",
        "Leaves an extra file beside its output",
        PAGE_JOB,
        "out('page.md', '# Prices\\n\\n' + 'All of them. ' * 5)\nout('scratch.txt', 'thoughts')",
    ),
)

NEXT = {
    "id": "next",
    "prompt": "Go on.",
    "needs": ["work"],
    "timeout": 60,
    "max_reexecute_times": 0,
}
BESIDE = {"id": "beside", "prompt": "Write notes.", "timeout": 60, "max_reexecute_times": 0}
NOTED = {
    "objective": "notes",
    "acceptance": [{"id": "c", "description": "noted", "evidenceRequired": ["noted"]}],
    "checks": [{"id": "noted", "kind": "file", "path": "notes.md", "contains": "note"}],
}
TEAMS = (
    case(
        "two-after-each-other",
        "A second agent goes on with what the first merged",
        CALC_JOB,
        ADD,
        more=(
            (
                NEXT | {"promise": NOTED, "outputs": []},
                'assert "a + b" in (TREE / "calc.py").read_text()\nput("notes.md", "note")',
            ),
        ),
    ),
    case(
        "two-side-by-side",
        "Another agent merges something else meanwhile",
        CALC_JOB,
        f"time.sleep(0.5)\n{ADD}",
        more=((BESIDE | {"promise": NOTED, "outputs": []}, 'put("notes.md", "note")'),),
    ),
    case(
        "two-touch-one-file",
        "Another agent appends to the same file first; the conflict is resolved",
        replace(
            CALC_JOB,
            checks=(CALC_RUN, {"id": "noted", "kind": "file", "path": "notes.md", "contains": "mine"}),
        ),
        ADD
        + """
path = TREE / "notes.md"
if not path.exists():
    time.sleep(2.5)
path.write_text((path.read_text() if path.exists() else "") + "mine\\n")
""",
        more=((BESIDE | {"promise": NOTED, "outputs": []}, 'put("notes.md", "note\\n")'),),
        from_round=2,
    ),
)

MORE_TESTS = """
put("tests/test_more.py", "from prices import total\\n\\n\\ndef test_none():\\n    assert total([]) == 0\\n")
"""
BOUNDS = (
    case(
        "leaves-its-scope-once",
        "Does the work and one thing too much, and leaves that out after the feedback",
        SCOPED_SHOP,
        FIX + 'if ROUND == 1:\n    put("extra.py", "x = 1\\n")',
        from_round=2,
        task={"max_reexecute_times": 2},
    ),
    case(
        "adds-tests-of-its-own",
        "Fixes it, and adds a test beside the old ones, which are not protected by name",
        replace(SHOP_JOB, name="open shop", checks=(SUITE,)),
        FIX + MORE_TESTS,
    ),
    case(
        "writes-tests-as-asked",
        "Its scope names the tests, and it writes into an old one",
        replace(SHOP_JOB, name="shop with tests", checks=(SUITE,), promise={"allowedScope": ["prices.py", "tests/**"]}),
        FIX
        + """
path = TREE / "tests/test_prices.py"
path.write_text(path.read_text() + "\\n\\ndef test_all_off():\\n    assert total([(10, 1)], discount=100) == 0\\n")
""",
    ),
    case(
        "ends-with-an-error",
        "Does the work, but its program ends with an error",
        CALC_JOB,
        ADD + 'print("I am not sure.")\nsys.exit(1)',
    ),
)

CASES = (*FIXES, *ROUNDS, *TREES, *OUTPUTS, *TEAMS, *BOUNDS)
