"""Reports to the engine over its channel. PYTEST_DONT_REWRITE

A reporter is appended to this when a run is prepared. It is loaded before anything of the work, and binds what it needs
at once, so that what the work patches later does not change what is reported. See `rules/suites/channel.py` for what is
sent.
"""

import _socket
import fcntl
import json
import os
import sys

_PYTHON_PATH = "PYTHONPATH"
_PLUGINS = "PYTEST_PLUGINS"
_HIGH = 400
"""From which number on the descriptor of the channel is: programs that close all low ones leave it open."""


def _open(place):
    """Open the channel; None where there is none."""
    try:
        end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        end.connect(os.path.join(place, "s"))
    except (OSError, AttributeError):
        return None
    low = end.detach()
    try:
        high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    except (OSError, ValueError):
        return low
    os.close(low)
    return high


def _forget(place):
    """Keep what this process starts from reporting: what pytest runs inside a test is not part of the suite."""
    name = __name__.rpartition(".")[2]
    for variable, word, mark in ((_PYTHON_PATH, place, os.pathsep), (_PLUGINS, name, ",")):
        left = [part for part in os.environ.get(variable, "").split(mark) if part and part != word]
        if left:
            os.environ[variable] = mark.join(left)
        else:
            os.environ.pop(variable, None)
    sys.path[:] = [path for path in sys.path if path != place]


def _connect(place):
    """Return the functions that add a frame and send what was added."""
    descriptor = _open(place)
    owner = os.getpid()
    waiting = []
    encode = json.JSONEncoder(separators=(",", ":")).encode
    quote = json.encoder.encode_basestring_ascii
    write, process = os.write, os.getpid
    broken = [descriptor is None]

    def say(*frame):
        if frame[0] == "begin":  # the two of every test are made without the encoder, which takes longer
            text = '["begin",' + quote(frame[1]) + "]"
        elif frame[0] == "end":
            text = '["end",' + quote(frame[1]) + ',"' + frame[2] + '",' + quote(frame[3]) + "]"
        else:
            text = encode(frame)
        data = text.encode("ascii")
        waiting.append(len(data).to_bytes(4, "big") + data)

    def send():
        data = b"".join(waiting)
        del waiting[:]
        if broken[0] or process() != owner:  # a fork of the runner is not the runner
            return
        try:
            while data:
                data = data[write(descriptor, data) :]
        except OSError:
            broken[0] = True

    return say, send


def _list_modules(top):
    """List the modules of a folder that are loaded, by their names, each with its file."""
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py"):
            file = os.path.realpath(file) if len(found) < 5000 else ""
            if file.startswith(top + os.sep) and os.sep + "site-packages" + os.sep not in file:
                found.append([name, file])
    return found


def _end_report(say, send, top, code):
    """Say which modules were loaded, and with which code the runner is about to end."""
    modules = _list_modules(top)[:5000]
    paths = [os.path.abspath(path) for path in sys.path][:200]
    for start in range(0, len(modules), 500):
        say("modules", paths, modules[start : start + 500])
    say("over", code)
    send()


def _start_report(runner):
    """Connect, and say which runner reports. Returns what adds a frame, and what sends those that were added."""
    place = os.path.dirname(os.path.abspath(__file__))
    say, send = _connect(place)
    _forget(place)
    say("hello", 1, runner)
    send()
    return say, send
