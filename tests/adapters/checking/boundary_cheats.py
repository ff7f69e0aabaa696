"""Work that does not do what the tests ask, and tries to pass over the boundary.

Each cheat is a module, and the body of a test that an honest module passes.
"""

from __future__ import annotations

from typing import Final

EQUAL: Final = """
class Equal:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 5
    def __bool__(self): return True
    def __lt__(self, other): return True
    __gt__ = __le__ = __ge__ = __lt__
    def __sub__(self, other): return Equal()
    __rsub__ = __add__ = __radd__ = __sub__
    def __abs__(self): return 0
    def __round__(self, digits=0): return 0
    def __contains__(self, other): return True
    def __iter__(self): return iter([Equal()])
    def __len__(self): return 1
    def __getitem__(self, key): return Equal()
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        return Equal()
    def __call__(self, *args): return True
"""
ADD: Final = "assert add(2, 3) == 5"
WRONG: Final = "def add(a, b): return 0\n"
LIE: Final = EQUAL + "def add(a, b): return Equal()\n"
FIND_WORKER: Final = """
import gc
def worker():
    return next(each for each in gc.get_objects() if type(each).__name__ == "Worker")
"""
CHEATS: Final[dict[str, tuple[str, str]]] = {
    "always_equal": (LIE, ADD),
    "always_equal_reversed": (LIE, "assert 5 == add(2, 3)"),
    "equal_in_a_list": (LIE, "assert [add(2, 3)] == [5]"),
    "equal_in_a_set": (LIE, "assert add(2, 3) in {5, 6}"),
    "equal_in_a_tuple": (EQUAL + "def add(a, b): return (Equal(), Equal())", "assert add(2, 3) == (5, 5)"),
    "equal_by_difference": (LIE, "assert abs(add(2, 3) - 5) < 0.001"),
    "equal_by_sum": (LIE, "assert 5 + add(2, 3) == 10"),
    "equal_by_order": (LIE, "assert 5 <= add(2, 3) <= 5"),
    "almost_equal": (LIE, "import unittest; unittest.TestCase().assertAlmostEqual(add(2, 3), 5)"),
    "approximately": (LIE, "import pytest; assert add(2, 3) == pytest.approx(5)"),
    "contains_everything": (LIE, "assert 5 in add(2, 3)"),
    "an_element_equals": (LIE, "assert add(2, 3)[0] == 5"),
    "an_attribute_equals": (LIE, "assert add(2, 3).total == 5"),
    "starts_with_everything": (
        "class Text:\n    def startswith(self, other): return True\ndef add(a, b): return Text()\n",
        "assert add(2, 3).startswith('5')",
    ),
    "int_subclass": (
        "class Int(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
        "def add(a, b): return Int(0)\n",
        ADD,
    ),
    "str_subclass": (
        "class Text(str):\n    def __eq__(self, other): return True\n    __hash__ = str.__hash__\n"
        "def add(a, b): return Text('x')\n",
        "assert add(2, 3) == 'five'",
    ),
    "tuple_subclasses": (
        "class Pair(tuple):\n    def __eq__(self, other): return True\n    __hash__ = tuple.__hash__\n"
        "class Other(Pair): pass\ndef add(a, b): return Other((0, 0))\n",
        "assert add(2, 3) == Pair((5, 5))",
    ),
    "list_subclass": (
        "class List(list):\n    def __eq__(self, other): return True\ndef add(a, b): return List([1])\n",
        "assert add(2, 3) == [5]",
    ),
    "dict_subclass": (
        "class Dict(dict):\n    def __eq__(self, other): return True\ndef add(a, b): return Dict(a=1)\n",
        "assert add(2, 3) == {'sum': 5}",
    ),
    "true_for_one": ("def add(a, b): return True\n", "assert type(add(2, 3)) is int and add(2, 3) == 1"),
    "class_lie": (
        EQUAL + "class Lie(Equal):\n    @property\n    def __class__(self): return int\ndef add(a, b): return Lie()\n",
        "assert isinstance(add(2, 3), int) and add(2, 3) == 5",
    ),
    "recognises_the_runner": (
        "import os\ndef add(a, b): return a + b if any(name.startswith('PYTEST_') for name in os.environ) else 0\n",
        ADD,
    ),
    "metaclass": (
        "class Meta(type):\n    def __eq__(cls, other): return True\n    __hash__ = type.__hash__\n"
        "class Sum(metaclass=Meta): pass\ndef add(a, b): return Sum\n",
        ADD,
    ),
    "several_faces": (
        EQUAL + "class Faces(Equal):\n    def __index__(self): return 0\n    def __str__(self): return '5'\n"
        "    def __float__(self): return 5.0\ndef add(a, b): return Faces()\n",
        ADD,
    ),
    "frames": (
        """
import sys
def add(a, b):
    frame = sys._getframe()
    while frame is not None:
        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
            if type(value) is int and value == 5: return value
        frame = frame.f_back
    return 0
""",
        "expected = 5\nassert add(2, 3) == expected",
    ),
    "garbage": (
        """
import gc
def add(a, b):
    for each in gc.get_objects():
        if type(each) is dict and type(each.get("expected")) is int: return each["expected"]
    return 0
""",
        "known = {'expected': 5}\nassert add(2, 3) == known['expected']",
    ),
    "reads_the_tests": (
        """
import pathlib, re
def add(a, b):
    for path in pathlib.Path(".").rglob("*"):
        try: found = re.search(r"answer = (.*)", path.read_text())
        except Exception: continue
        if found: return int(found[1])
    return 0
""",
        "answer = 77\nassert add(2, 3) + 0 == answer - 72",
    ),
    "patches_builtins": (
        "import builtins, operator, unittest\nbuiltins.isinstance = lambda *a: True\noperator.eq = lambda *a: True\n"
        "unittest.TestCase.assertEqual = lambda *a: None\n" + WRONG,
        "import unittest; unittest.TestCase().assertEqual(add(2, 3), 5)",
    ),
    "patches_pytest": (
        "import sys\nfor name in list(sys.modules):\n"
        "    if 'pytest' in name: sys.modules[name].raises = lambda *a: None\n" + WRONG,
        ADD,
    ),
    "exits_at_once": ("import os\ndef add(a, b): os._exit(0)\n", ADD),
    "exits": ("import sys\ndef add(a, b): sys.exit(0)\n", ADD),
    "exits_at_import": ("import os\nos._exit(0)\n", ADD),
    "exits_in_a_thread": (
        "import os, threading\ndef add(a, b):\n    threading.Thread(target=os._exit, args=(0,)).start()\n"
        "    return 0\n",
        ADD,
    ),
    "at_exit": ("import atexit, os\natexit.register(os._exit, 0)\n" + WRONG, ADD),
    "skips": ("import unittest\ndef add(a, b): raise unittest.SkipTest('later')\n", ADD),
    "skips_as_pytest": (
        "class Skipped(BaseException): pass\nSkipped.__module__ = 'pytest'\ndef add(a, b): raise Skipped('later')\n",
        ADD,
    ),
    "interrupts": ("def add(a, b): raise KeyboardInterrupt\n", ADD),
    "a_skip_that_is_caught": (
        "import unittest\ndef add(a, b): raise unittest.SkipTest('later')\n",
        "try:\n    add(2, 3)\nexcept BaseException:\n    pass",
    ),
    "traces": (
        "import ctypes, os\ndef add(a, b):\n    ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)\n    return 0\n",
        ADD,
    ),
    "writes_to_descriptors": (
        "import os\ndef add(a, b):\n    for number in range(3, 200):\n        try: os.write(number, b'\\0\\0\\0\\2{}')\n"
        "        except OSError: pass\n    return 0\n",
        ADD,
    ),
    "answers_twice": (
        FIND_WORKER + "def add(a, b):\n    wire = worker()._wire\n    for number in range(1, 60): "
        "wire.send([number, 'r', 5, []])\n    return 0\n",
        "assert add(1, 1) == 0 or True\nassert add(2, 3) == 5\nassert add(4, 4) == 8",
    ),
    "names_a_function_of_ours": (
        FIND_WORKER + "def add(a, b):\n    wire = worker()._wire\n    "
        "wire.send([worker()._next >> 20, 'r', ['N', 'os', '_exit'], []])\n    return 0\n",
        "add(2, 3)(0)",
    ),
    "reaches_for_our_objects": (
        FIND_WORKER + "def add(a, b):\n    them = [worker().ask('get', n, '__globals__') for n in range(9)]\n"
        "    return 0\n",
        "assert add(lambda: 1, 3) == 5",
    ),
    "overwrites_our_objects": (
        "def add(case, b):\n    case.assertEqual = lambda *args: None\n    return 0\n",
        "import unittest\ncase = unittest.TestCase()\ncase.assertEqual(add(case, 3), 5)",
    ),
    "reduces": (
        "import os\nclass Sum:\n    def __reduce__(self): return os._exit, (0,)\n"
        "    def __eq__(self, other): return True\n"
        "def add(a, b): return Sum()\n",
        "import copy\nassert copy.copy(add(2, 3)) == 5",
    ),
    "imports_in_its_way": (
        "import sys\nclass Finder:\n    def find_spec(self, *args): raise SystemExit(0)\n"
        "sys.meta_path.insert(0, Finder())\nsys.modules['json'] = None\n" + WRONG,
        "import json\nassert add(2, 3) == json.loads('5')",
    ),
    "huge": ("def add(a, b): return 'x' * (100 << 20)\n", "assert add(2, 3) == 5"),
    "deep": (
        "def add(a, b):\n    value = []\n    for _ in range(10 ** 5): value = [value]\n    return value\n",
        "assert add(2, 3) == 5",
    ),
    "circular": (
        "def add(a, b):\n    value = []\n    value.append(value)\n    return value\n",
        "assert add(2, 3) == [5]",
    ),
    "remembers_calls": (
        "seen = []\ndef add(a, b):\n    seen.append(a)\n    return 5 if len(seen) > 1 else 0\n",
        ADD,
    ),
    "swallows_assertions": (
        "class Quiet:\n    def __enter__(self): return self\n    def __exit__(self, *args): return True\n"
        "    def add(self, a, b): return 0\n",
        "with Quiet() as quiet:\n    assert quiet.add(2, 3) == 5",
    ),
    "swallows_a_callback": (
        "def call(function):\n    try: function(0)\n    except BaseException: pass\n",
        "def check(value):\n    assert value == 5\ncall(check)",
    ),
    "swallows_assertions_later": (
        "class Quiet:\n    async def __aenter__(self): return self\n    async def __aexit__(self, *args): return True\n"
        "    def add(self, a, b): return 0\n",
        "import asyncio\nasync def check():\n    async with Quiet() as quiet:\n        assert quiet.add(2, 3) == 5\n"
        "asyncio.run(check())",
    ),
    "swallows_what_it_awaits": (
        "async def call(function):\n    try: await function()\n    except BaseException: pass\n",
        "import asyncio\nasync def check():\n    assert 0 == 5\nasyncio.run(call(check))",
    ),
    "equal_later": (
        EQUAL + "async def add(a, b): return Equal()\n",
        "import asyncio\nassert asyncio.run(add(2, 3)) == 5",
    ),
    "is_cancelled": (
        "import asyncio\nasync def add(a, b): raise asyncio.CancelledError\n",
        "import asyncio\ntry:\n    asyncio.run(add(2, 3))\nexcept BaseException:\n    pass",
    ),
    "skips_later": (
        "import unittest\nasync def add(a, b): raise unittest.SkipTest('later')\n",
        "import asyncio\nassert asyncio.run(add(2, 3)) == 5",
    ),
    "endless_later": (
        "async def add(a, b):\n    while True: yield 5\n",
        "import asyncio\nasync def check():\n    return [each async for each in add(2, 3)]\nassert asyncio.run(check()) == [5]",
    ),
    "logs_what_equals_everything": (
        EQUAL + "import logging\nclass Text(str, Equal):\n    __hash__ = str.__hash__\n"
        "def add(a, b): logging.getLogger('x').warning(Text('0'), extra={'sum': Equal()})\n",
        "import logging\nheard = []\nclass Heard(logging.Handler):\n    def emit(self, record): heard.append(record)\n"
        "logging.getLogger('x').addHandler(Heard())\nadd(2, 3)\nassert heard[0].msg == '5' or heard[0].sum == 5",
    ),
    "logs_rubbish": (
        FIND_WORKER + "def add(a, b):\n    worker()._effects.append(['g', 'x', 'y', {}, None, [], {}])\n    return 5\n",
        "try:\n    add(2, 3)\nexcept Exception:\n    pass",
    ),
    "decorates_the_assertion": (
        "def checked(function): return lambda: None\n" + WRONG,
        "@checked\ndef check():\n    assert add(2, 3) == 5\ncheck()\nassert add(2, 3) == 5",
    ),
    "forks": (
        "import os\ndef add(a, b):\n    os.fork()\n    return 5 if os.getpid() % 2 else 0\n",
        "assert [add(2, 3), add(4, 5), add(1, 1)] == [5, 9, 2]",
    ),
    "writes_the_outcomes": (
        "import glob, json\ndef add(a, b):\n    for place in glob.glob('/tmp/**/place', recursive=True):\n"
        "        try: open(place + '/outcomes.json', 'w').write('{}')\n        except OSError: pass\n    return 0\n",
        ADD,
    ),
    "rewrites_its_own_encoding": (
        FIND_WORKER + "import sys\ndef add(a, b):\n    module = sys.modules[type(worker()).__module__]\n"
        "    module.encode = lambda value, *rest: ['evil', 1]\n    return 0\n",
        ADD,
    ),
    "same_fields": (
        "class Sum:\n    __slots__ = ()\n    def __init__(self, value): pass\n    def __eq__(self, other): return True\n"
        "def add(a, b): return Sum(0)\n",
        "assert add(2, 3) == Sum(5)",
    ),
    "endless": (
        "def add(a, b):\n    while True: yield 5\n",
        "values = add(2, 3)\nassert all(next(values) == 5 for _ in range(5)) and next(values, None) is None",
    ),
    "endless_length": (
        "class Sum:\n    def __len__(self): return 10 ** 30\ndef add(a, b): return Sum()\n",
        "assert len(add(2, 3)) == 5",
    ),
    "kills_everyone": (
        "import os, signal\ndef add(a, b):\n    for name in os.listdir('/proc'):\n"
        "        if name.isdigit() and int(name) != os.getpid():\n"
        "            try: os.kill(int(name), signal.SIGKILL)\n            except OSError: pass\n    return 0\n",
        ADD,
    ),
    "stops_its_parent": (
        "import os, signal\ndef add(a, b):\n    os.kill(os.getppid(), signal.SIGKILL)\n    return 0\n",
        ADD,
    ),
}
