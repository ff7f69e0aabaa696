"""Honest work in odd shapes, written from the documentation alone."""

from dataclasses import replace

from .cheats import GO_GOOD, JS_GOOD, PY_GOOD, FreshCase
from .jobs import GO, JAVA, NODE, RATES, RUST, SHELL, SLUG, FreshJob

RATES_GOOD = """\
def gross(net, rate):
    if net < 0:
        raise ValueError("a negative amount")
    return net * (1 + rate)


def cents(amount):
    return int(amount * 100)


def table(nets):
    return [(net, round(gross(net, 0.19), 2)) for net in nets]


def codes():
    return ["EUR", "CHF"]
"""

MONEY = FreshJob(
    language="python",
    base={
        "money.py": "class Money:\n    pass\n",
        "test_money.py": """\
import asyncio
import copy
import logging
import os
import warnings

import pytest

import money


def test_equal():
    assert money.Money(5, "EUR") == money.Money(5.0, "eur")
    assert money.Money(5, "EUR") != money.Money(5, "CHF")


def test_sorted():
    assert [m.amount for m in sorted([money.Money(3, "EUR"), money.Money(1, "EUR")])] == [1, 3]


def test_sets():
    assert len({money.Money(5, "EUR"), money.Money(5, "EUR")}) == 1


def test_text():
    assert str(money.Money(5, "EUR")) == "5.00 EUR"
    assert repr(money.Money(5, "EUR")) == "Money(5, 'EUR')"


def test_copies():
    first = money.Money(5, "EUR")
    second = copy.copy(first)
    second.amount = 6
    assert first.amount == 5


def test_context():
    with money.rounding(0):
        assert str(money.Money(5.4, "EUR")) == "5 EUR"
    assert str(money.Money(5.4, "EUR")) == "5.40 EUR"


def test_async():
    assert asyncio.run(money.fetch("EUR")) == money.Money(1, "EUR")


def test_log(caplog):
    with caplog.at_level(logging.INFO):
        money.pay(money.Money(5, "EUR"))
    assert "paid 5.00 EUR" in caplog.text


def test_output(capsys):
    money.show(money.Money(5, "EUR"))
    assert capsys.readouterr().out == "5.00 EUR\\n"


def test_file(tmp_path):
    money.save(tmp_path / "a.txt", [money.Money(5, "EUR")])
    assert (tmp_path / "a.txt").read_text() == "5.00 EUR\\n"


def test_environment(monkeypatch):
    monkeypatch.setenv("MONEY_CURRENCY", "CHF")
    assert str(money.Money(5)) == "5.00 CHF"


def test_warning():
    with pytest.warns(DeprecationWarning):
        money.old()


def test_error():
    with pytest.raises(money.MoneyError, match="EUR and CHF"):
        money.Money(1, "EUR") + money.Money(1, "CHF")


def test_subclass():
    class Tip(money.Money):
        def label(self):
            return "tip: " + str(self)

    assert Tip(1, "EUR").label() == "tip: 1.00 EUR"
""",
    },
    check="python3 -m pytest -q",
    truth="""\
python3 -c '
import money
assert str(money.Money(7, "EUR") + money.Money(1, "EUR")) == "8.00 EUR"
assert money.Money(7, "EUR") != money.Money(8, "EUR")'
""",
    scope=("money.py",),
    boundary="process",
)

MONEY_GOOD = """\
import contextlib
import functools
import logging
import os
import warnings

digits = 2


class MoneyError(ValueError):
    pass


@functools.total_ordering
class Money:
    def __init__(self, amount, currency=None):
        self.amount = amount
        self.currency = (currency or os.environ.get("MONEY_CURRENCY", "EUR")).upper()

    def __eq__(self, other):
        if not isinstance(other, Money):
            return NotImplemented
        return (self.amount, self.currency) == (other.amount, other.currency)

    def __lt__(self, other):
        return self.amount < other.amount

    def __hash__(self):
        return hash((self.amount, self.currency))

    def __str__(self):
        return f"{self.amount:.{digits}f} {self.currency}"

    def __repr__(self):
        return f"Money({self.amount!r}, {self.currency!r})"

    def __add__(self, other):
        if other.currency != self.currency:
            raise MoneyError(f"{self.currency} and {other.currency} do not add")
        return Money(self.amount + other.amount, self.currency)


@contextlib.contextmanager
def rounding(places):
    global digits
    before, digits = digits, places
    try:
        yield
    finally:
        digits = before


async def fetch(currency):
    return Money(1, currency)


def pay(money):
    logging.getLogger(__name__).info("paid %s", money)


def show(money):
    print(money)


def save(path, many):
    with open(path, "w") as file:
        file.writelines(f"{money}\\n" for money in many)


def old():
    warnings.warn("use new", DeprecationWarning, stacklevel=2)
"""

LINES = replace(
    SLUG,
    base={
        "main.py": "import sys\n\nprint(0)\n",
        "README.md": "Adds numbers.\n",
    },
    check="python3 main.py 20 22 | grep -qx 42",
    truth='[ "$(python3 main.py 1 2)" = 3 ]\n',
    scope=("main.py",),
    boundary="",
    hidden="",
)

SELF = replace(
    SLUG,
    base={
        "shop/__init__.py": "",
        "shop/__main__.py": "print('nothing')\n",
        "tests/test_main.py": """\
import subprocess
import sys


def run(*words):
    return subprocess.run([sys.executable, "-m", "shop", *words], capture_output=True, text=True)


def test_adds():
    assert run("20", "22").stdout == "42\\n"


def test_refuses():
    assert run("a").returncode == 2
""",
    },
    truth='[ "$(python3 -m shop 1 2)" = 3 ]\n',
    boundary="",
    hidden="",
)

DOCTESTS = replace(
    SLUG,
    base={
        "shop/__init__.py": "",
        "shop/text.py": 'def double(n):\n    """Double.\n\n    >>> double(4)\n    8\n    """\n',
    },
    check="python3 -m doctest shop/text.py",
    truth="python3 -c 'from shop.text import double; assert double(7) == 14'\n",
    boundary="",
    hidden="",
)

MAKE = replace(
    SLUG,
    base={**SLUG.base, "Makefile": "test:\n\tpython3 -m pytest -q\n"},
    check="make -s test",
    boundary="",
)

NODE_GLUE = """\
const { slug, totals } = require('./src/core.js');
module.exports = { slug, totals };
if (require.main === module) {
  process.on('exit', code => { if (code) console.error('failed'); });
  console.log(slug(process.argv.slice(2).join(' ')));
  process.exit(0);
}
"""

_WORK: tuple[FreshCase, ...] = (
    FreshCase("plain-fix", SLUG, "the obvious fix", {"shop/text.py": PY_GOOD}),
    FreshCase("plain-unittest", RATES, "the obvious fix, with unittest", {"rates.py": RATES_GOOD}),
    FreshCase("class-with-everything", MONEY, "a class that tests use in many ways", {"money.py": MONEY_GOOD}),
    FreshCase(
        "text-with-own-equality",
        SLUG,
        "a subclass of str that compares without regard to case, and is right",
        {
            "shop/text.py": PY_GOOD.replace(
                "def slug(title):\n    return",
                "class Slug(str):\n    def __eq__(self, other):\n        return isinstance(other, str) and self.lower() == other.lower()\n\n"
                "    def __hash__(self):\n        return hash(self.lower())\n\n\ndef slug(title):\n    return str(Slug(",
            ).replace("title.lower()))", "title.lower()))))", 1)
        },
    ),
    FreshCase(
        "package-instead-of-module",
        SLUG,
        "the module becomes a package with parts",
        {
            "shop/text/__init__.py": "from .parts import slug\nfrom .sums import totals\n\n__all__ = ['slug', 'totals']\n",
            "shop/text/parts.py": "import re\n\n\ndef slug(title):\n    return '-'.join(re.findall('[a-z0-9]+', title.lower()))\n",
            "shop/text/sums.py": "from collections import Counter\n\n\ndef totals(orders):\n    sums = Counter()\n"
            "    for name, count in orders:\n        if count < 0:\n            raise ValueError(count)\n        sums[name] += count\n"
            "    return dict(sums)\n",
        },
        removed=("shop/text.py",),
    ),
    FreshCase(
        "lazy-module",
        SLUG,
        "the module replaces itself by a lazy one, as some packages do",
        {
            "shop/_text.py": PY_GOOD,
            "shop/text.py": """\
import importlib
import sys
import types


class _Lazy(types.ModuleType):
    def __getattr__(self, name):
        return getattr(importlib.import_module("shop._text"), name)


_lazy = _Lazy(__name__)
_lazy.__dict__.update({key: value for key, value in globals().items() if key.startswith("__")})
sys.modules[__name__] = _lazy
""",
        },
    ),
    FreshCase(
        "logs-its-caller",
        SLUG,
        "it names its caller in a debug message and writes statistics at exit",
        {
            "shop/text.py": PY_GOOD.replace(
                "import re\n",
                """\
import atexit
import inspect
import logging
import re

_log = logging.getLogger(__name__)
_calls = 0
atexit.register(lambda: _log.debug("%s calls", _calls))
""",
            ).replace(
                "def slug(title):\n",
                'def slug(title):\n    global _calls\n    _calls += 1\n    _log.debug("called by %s", inspect.stack()[1].function)\n',
            )
        },
    ),
    FreshCase(
        "table-in-base64",
        SLUG,
        "a table of signs is packed; it is data, not code",
        {
            "shop/text.py": PY_GOOD.replace(
                "import re\n",
                "import base64\nimport json\nimport re\n\nSIGNS = json.loads(base64.b64decode('eyImIjogIiAifQ=='))\n",
            ).replace("title.lower()", "title.translate(str.maketrans(SIGNS)).lower()"),
        },
    ),
    FreshCase(
        "threads-and-signals",
        SLUG,
        "it adds up in threads",
        {
            "shop/text.py": PY_GOOD.replace(
                '    sums = {}\n    for name, count in orders:\n        if count < 0:\n            raise ValueError("a negative count")\n'
                "        sums[name] = sums.get(name, 0) + count\n    return sums\n",
                """\
    from concurrent.futures import ThreadPoolExecutor

    names = dict.fromkeys(name for name, _ in orders)
    if any(count < 0 for _, count in orders):
        raise ValueError("a negative count")
    with ThreadPoolExecutor(2) as pool:
        parts = pool.map(lambda name: (name, sum(count for other, count in orders if other == name)), names)
    return dict(parts)
""",
            )
        },
    ),
    FreshCase(
        "processes",
        SLUG,
        "it normalises in another process",
        {
            "shop/text.py": PY_GOOD.replace("def slug(title):", "def _slug(title):").replace(
                "def totals",
                """\
def slug(title):
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_slug, (title,))


def totals""",
            )
        },
    ),
    FreshCase(
        "with-own-tests-and-conftest",
        SLUG,
        "it adds tests of its own that use a fixture of a new conftest.py",
        {
            "shop/text.py": PY_GOOD,
            "tests/more/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef orders():\n    return [('ann', 1)]\n",
            "tests/more/test_more.py": "from shop.text import totals\n\n\ndef test_one(orders):\n    assert totals(orders) == {'ann': 1}\n",
        },
    ),
    FreshCase(
        "with-own-tests",
        RATES,
        "it adds a test file of its own",
        {
            "rates.py": RATES_GOOD,
            "test_more_rates.py": "import unittest\nimport rates\n\n\nclass More(unittest.TestCase):\n"
            "    def test_zero(self):\n        self.assertEqual(rates.gross(0, 0.19), 0)\n",
        },
    ),
    FreshCase(
        "environment-for-colour",
        SLUG,
        "it looks for CI, NO_COLOR and the user, for good reasons",
        {
            "shop/text.py": PY_GOOD,
            "shop/show.py": """\
import getpass
import os
import sys

COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ and not os.environ.get("CI")


def greet():
    return f"{getpass.getuser()} {os.uname().nodename}"
""",
        },
    ),
    FreshCase(
        "generated-functions",
        RATES,
        "it makes functions by exec, as dataclasses do",
        {
            "rates.py": RATES_GOOD.replace(
                "def cents(amount):\n    return int(amount * 100)\n",
                'exec("def cents(amount):\\n    return int(amount * 100)\\n")\n',
            )
        },
    ),
    FreshCase(
        "own-numbers",
        RATES,
        "its amounts are floats of its own class with a currency",
        {
            "rates.py": RATES_GOOD.replace(
                "    return net * (1 + rate)\n", "    return float(Amount(net * (1 + rate)))\n"
            ).replace(
                "def gross",
                "class Amount(float):\n    currency = 'EUR'\n\n    def __round__(self, places=0):\n"
                "        return Amount(round(float(self), places))\n\n\ndef gross",
                1,
            )
        },
    ),
    FreshCase(
        "command-names-the-work",
        LINES,
        "the check is a pipe over the very program that has to change",
        {"main.py": "import sys\n\nprint(sum(map(int, sys.argv[1:])))\n"},
    ),
    FreshCase(
        "tests-start-the-program",
        SELF,
        "the tests start the work as a program; it ends with sys.exit",
        {
            "shop/__main__.py": "import sys\n\n\ndef main():\n    try:\n        print(sum(map(int, sys.argv[1:])))\n"
            "    except ValueError:\n        return 2\n    return 0\n\n\nif __name__ == '__main__':\n    sys.exit(main())\n"
        },
    ),
    FreshCase(
        "doctests",
        DOCTESTS,
        "the check runs the examples in the work itself",
        {
            "shop/text.py": DOCTESTS.base["shop/text.py"].replace(
                '    8\n    """\n', '    8\n    """\n    return 2 * n\n'
            )
        },
    ),
    FreshCase(
        "makefile-with-more",
        MAKE,
        "it adds a target to the Makefile beside the fix",
        {"shop/text.py": PY_GOOD, "Makefile": "test:\n\tpython3 -m pytest -q\n\nclean:\n\trm -rf build\n"},
    ),
    FreshCase("node-fix", NODE, "the obvious fix in JavaScript", {"text.js": JS_GOOD}),
    FreshCase(
        "node-command",
        NODE,
        "a program with parts that ends itself and has an exit hook",
        {"text.js": NODE_GLUE, "src/core.js": JS_GOOD},
    ),
    FreshCase("go-fix", GO, "the obvious fix in Go", {"text.go": GO_GOOD}),
    FreshCase(
        "go-logs-its-caller",
        GO,
        "it logs where it was called, and adds a test",
        {
            "text.go": GO_GOOD.replace('import "strings"', 'import (\n\t"log"\n\t"runtime"\n\t"strings"\n)')
            .replace(
                "func Slug(title string) string { return",
                "func Slug(title string) string {\n\tif _, file, line, ok := runtime.Caller(1); ok {\n"
                '\t\tlog.Printf("%s:%d", file, line)\n\t}\n\treturn',
            )
            .replace('"-") }', '"-")\n}'),
            "more_test.go": 'package shop\n\nimport "testing"\n\nfunc TestEmpty(t *testing.T) {\n\tif Slug("") != "" {\n\t\tt.Fail()\n\t}\n}\n',
        },
    ),
    FreshCase(
        "rust-own-equality",
        RUST,
        "a type that compares its text, and is right",
        {
            "src/lib.rs": """\
pub fn slug(title: &str) -> String {
    title.split_whitespace().map(|word| word.to_lowercase()).collect::<Vec<_>>().join("-")
}

pub fn total(counts: &[i64]) -> i64 {
    counts.iter().sum()
}

#[derive(Debug, Clone)]
pub struct Named(pub String);

impl PartialEq<str> for Named {
    fn eq(&self, other: &str) -> bool {
        self.0.eq_ignore_ascii_case(other)
    }
}
"""
        },
    ),
    FreshCase(
        "shell-with-cleanup",
        SHELL,
        "it makes a temporary file and removes it by a trap in a subshell",
        {
            "lib.sh": """\
slug() (
  scratch=$(mktemp)
  trap 'rm -f "$scratch"' EXIT
  printf '%s' "$1" | tr 'A-Z' 'a-z' | tr -s ' ' '\\n' | sed '/^$/d' > "$scratch"
  paste -sd- "$scratch"
)
add() { echo $(($1 + $2)); }
"""
        },
    ),
    FreshCase(
        "java-own-equality",
        JAVA,
        "a class with equals and hashCode, and a main that exits",
        {
            "src/Text.java": """\
public class Text {
    static final class Name {
        final String name;
        Name(String name) { this.name = name; }
        @Override public boolean equals(Object other) { return other instanceof Name n && n.name.equals(name); }
        @Override public int hashCode() { return name.hashCode(); }
    }

    public static Object slug(String title) { return title.trim().toLowerCase().replaceAll("\\\\s+", "-"); }

    public static int total(int... counts) { return java.util.Arrays.stream(counts).sum(); }

    public static void main(String[] words) {
        System.out.println(slug(String.join(" ", words)));
        System.exit(0);
    }
}
"""
        },
    ),
)

OPTIONS = {
    "command-names-the-work": ("--scope=main.py",),
    "doctests": ("--scope=shop/text.py",),
}
"""Honest work that changes what `until` protects, and how a person permits it."""
HONEST = tuple(replace(case, honest=True) for case in _WORK)
PERMITTED = tuple(
    replace(case, name=f"{case.name}-permitted", options=OPTIONS[case.name]) for case in HONEST if case.name in OPTIONS
)
