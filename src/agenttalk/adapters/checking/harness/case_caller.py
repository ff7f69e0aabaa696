# Tries the cases of a check, each in a process of its own, and notes the results. It knows inputs, and nothing of
# what is expected. Started as: PYTHON THIS.py REQUEST ANSWERS. It has to work with Python 3.6 and newer.
import json
import os
import select
import signal
import subprocess
import sys
import time

_LARGEST = 1 << 20
_DEEPEST = 100


def _encode(value, depth=0):
    """Write a value in the canonical form. What is of no known type is an object, which equals nothing."""
    kind = type(value)
    if depth > _DEEPEST:
        return {"$object": "too deep"}
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if value == value and value not in (float("inf"), float("-inf")) else {"$float": repr(value)}
    if kind is list:
        return [_encode(item, depth + 1) for item in value]
    if kind in (tuple, set, frozenset):
        return {"$" + kind.__name__: [_encode(item, depth + 1) for item in value]}
    if kind is dict:
        if all(type(key) is str for key in value) and not (len(value) == 1 and next(iter(value)).startswith("$")):
            return {key: _encode(item, depth + 1) for key, item in value.items()}
        return {"$dict": [[_encode(key, depth + 1), _encode(item, depth + 1)] for key, item in value.items()]}
    if kind in (bytes, bytearray):
        return {"$bytes": value.hex()} if kind is bytes else {"$object": "bytearray"}
    if kind is complex:
        return {"$complex": [_encode(value.real), _encode(value.imag)]}
    if kind.__module__ == "decimal" and kind is sys.modules["decimal"].Decimal:
        return {"$decimal": str(value)}
    return {"$object": "%s.%s" % (kind.__module__, getattr(kind, "__qualname__", kind.__name__))}


def _decode(value):
    """Read a value from the canonical form."""
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        [(key, inner)] = value.items()
        if key in ("$tuple", "$set", "$frozenset"):
            return {"$tuple": tuple, "$set": set, "$frozenset": frozenset}[key](_decode(inner))
        if key == "$bytes":
            return bytes.fromhex(inner)
        if key == "$decimal":
            from decimal import Decimal

            return Decimal(inner)
        if key == "$float":
            return float(inner)
        if key == "$complex":
            return complex(*inner)
        if key == "$dict":
            return {_decode(name): _decode(item) for name, item in inner}
    return {key: _decode(item) for key, item in value.items()}


def _name(kind):
    import builtins

    plain = getattr(builtins, kind.__name__, None) is kind
    return kind.__name__ if plain else "%s.%s" % (kind.__module__, kind.__qualname__)


def _call(place, case):
    """Call a function. Returns its result."""
    import importlib

    sys.path[0] = os.getcwd()
    module, _, names = place.partition(":")
    try:
        function = importlib.import_module(module)
        for name in names.split("."):
            function = getattr(function, name)
    except Exception as error:
        return {"unloaded": "%s: %s" % (_name(type(error)), error)}
    try:
        value = function(*_decode(case.get("args", [])), **_decode(case.get("kwargs", {})))
        if type(value).__name__ == "coroutine":
            import asyncio

            value = asyncio.get_event_loop_policy().new_event_loop().run_until_complete(value)
    except Exception as error:
        return {"raised": [_name(kind) for kind in type(error).__mro__]}
    return {"value": _encode(value)}


def _try_call(place, case, seconds):
    """Call a function in a process of its own."""
    end, begin = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setsid()
            os.close(end)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            answer = json.dumps(_call(place, case)).encode("ascii") + b"\n"
            while answer:
                answer = answer[os.write(begin, answer) :]
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.close(begin)
    answer, data = _read(end, seconds)
    _end(child)
    _, status = os.waitpid(child, 0)
    os.close(end)
    if answer is not None:
        return answer
    try:
        return json.loads(data.decode("ascii"))
    except ValueError:
        return {"ended": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)}


def _read(end, seconds):
    """Read one line. Returns why that did not succeed, and what was read."""
    deadline = time.monotonic() + seconds
    data = b""
    while not data.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([end], [], [], left)[0]:
            return {"late": True}, data
        piece = os.read(end, 65536)
        data += piece
        if len(data) > _LARGEST:
            return {"large": True}, data
        if not piece:
            break
    return None, data


def _end(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass


def _try_run(line, case, seconds):
    """Run a command in a process of its own."""
    for path, text in case.get("files", {}).items():
        above = os.path.dirname(path)
        if above:
            os.makedirs(above, exist_ok=True)
        with open(path, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
    for path in case.get("writes", []):
        if os.path.lexists(path) and path not in case.get("files", {}):
            os.remove(path)
    args = case.get("args", [])
    line = line + ' "$@"' if args and "$" not in line else line
    running = subprocess.Popen(
        ["/bin/sh", "-c", line, "sh"] + args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    late = False
    try:
        stdout, _ = running.communicate(case.get("stdin", "").encode("utf-8", "surrogateescape"), timeout=seconds)
    except subprocess.TimeoutExpired:
        late, stdout = True, b""
    _end(running.pid)
    if late:
        running.kill()
        running.wait()
        return {"late": True}
    if len(stdout) > _LARGEST:
        return {"large": True}
    written = {path: _read_file(path) for path in case.get("writes", [])}
    code = running.returncode if running.returncode >= 0 else 128 - running.returncode
    return {"code": code, "stdout": stdout.decode("latin-1"), "written": written}


def _read_file(path):
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return file.read(_LARGEST).decode("latin-1")


def _try_all(request, answers):
    with open(request, encoding="utf-8") as file:
        asked = json.load(file)
    line = asked.get("run")
    for case in asked["cases"]:
        answer = _try_run(line, case, asked["each"]) if line else _try_call(asked["call"], case, asked["each"])
        with open(answers, "ab") as file:
            file.write(json.dumps(answer).encode("ascii") + b"\n")


_try_all(*sys.argv[1:3])
