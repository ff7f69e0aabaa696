# Starts the test program of `go test` or of `cargo test`, whose reports no library of the program's own can change.
# Those runners start it as: python -I -S THIS.py RUNNER PROGRAM ARGUMENT...
import json
import os
import re
import secrets
import socket
import subprocess
import sys

_LINE = re.compile(
    rb"^test (?P<name>\S.*?)(?: - should panic)? \.\.\. (?P<end>ok|FAILED|ignored(?:, (?P<why>.*))?)\s*$"
)
_LISTED = re.compile(rb"^(?P<name>\S.*): test$", re.MULTILINE)
_COUNTED = re.compile(rb"^\d+ tests?, \d+ benchmarks?\s*\Z", re.MULTILINE)
_ALONE = re.compile(rb"^test result: ok\. 1 passed; 0 failed; 0 ignored;", re.MULTILINE)
_HASH = re.compile(r"-[0-9a-f]{16}\Z")
_ENDS = {b"ok": "passed", b"FAILED": "failed"}
_QUIET = {"-q", "--quiet", "--format=terse"}
_MOST_ALONE = 1000
_LENIENT = {"--ignored", "--include-ignored"}
_RETURN = "RUST_TEST_RETURN"
_OF_LIBTEST = b"library/test/src/"


def _connect():
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        end.connect(os.path.join(os.path.dirname(os.path.abspath(__file__)), "s"))
    except OSError:
        return None
    return end


def _say(end, *frame):
    data = json.dumps(frame).encode("ascii")
    try:
        end.sendall(len(data).to_bytes(4, "big") + data)
    except OSError:
        pass


def _forget():
    """Keep what the program starts from reporting: it is not part of the suite."""
    here = os.path.dirname(os.path.abspath(__file__))
    for name, value in list(os.environ.items()):
        if name == "GOFLAGS":
            words = [word for word in value.split(" ") if here not in word and word != "-count=1"]
            os.environ[name] = " ".join(words)
        elif name.startswith("CARGO_TARGET_") and here in value:
            del os.environ[name]


def _run_go(end, words):
    """Become the test program, which goes on with the report itself."""
    os.set_inheritable(end.fileno(), True)
    high = os.dup2(end.fileno(), 400) if os.sysconf("SC_OPEN_MAX") > 400 else end.fileno()
    os.environ["GO_TEST_REPORT"] = str(high)
    os.execv(words[0], words)


class _RustProgram:
    """A test program of Rust.

    Where it was linked by us, it tells when its main function has returned. libtest returns from it only after all
    tests have passed; a program that ends itself before does not.
    """

    def __init__(self, path):
        with open(path, "rb") as file:
            content = file.read()
        self.is_listed = b"test result: " in content
        self._tells = _OF_LIBTEST in content and _RETURN.encode() in content

    def start(self, words, **given):
        """Start it. Returns the process, and what waits for its end and tells whether it ended in its own way."""
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        word = secrets.token_hex(16)
        env = {**os.environ, _RETURN: f"{theirs}:{word}"} if self._tells else None
        process = subprocess.Popen(words, stdout=subprocess.PIPE, env=env, pass_fds=(theirs,), **given)
        os.close(theirs)

        def wait():
            code = process.wait()
            try:
                said = os.read(ours, 100)
            except BlockingIOError:
                said = b""
            os.close(ours)
            return code, code != 0 or not self._tells or said == word.encode()

        return process, wait

    def run(self, words):
        """Run it alone. Returns its exit code, what it printed, and whether it ended in its own way."""
        process, wait = self.start(words, stdin=subprocess.DEVNULL)
        printed = process.stdout.read()
        code, ended = wait()
        return code, printed, ended

    def list_tests(self, words):
        """List the tests that it is going to run, before it runs; None if it is not made by libtest."""
        if not self.is_listed:
            return None
        code, printed, ended = self.run([*words, "--list"])
        if code or not ended or not _COUNTED.search(printed):
            return []
        return [found["name"] for found in _LISTED.finditer(printed)]


def _run_cargo(end, words):
    """Run a test program, and report what it prints. A test that printed into its own line is run once more, alone."""
    stem = _HASH.sub("", os.path.basename(words[0]))
    place = ".".join(filter(None, [os.environ.get("CARGO_PKG_NAME", ""), stem]))
    words = [word for word in words if word not in _QUIET]
    program = _RustProgram(words[0])
    names = program.list_tests(words)
    known = set(names or ())

    def name(text):
        return place + "::" + text.decode("utf-8", "replace")

    def finish(test, outcome, why=b""):
        _say(end, "begin", name(test))
        _say(end, "end", name(test), outcome, (why or b"").decode("utf-8", "replace"))

    if names is not None:
        for start in range(0, len(names), 200):
            _say(end, "tests", [name(test) for test in names[start : start + 200]])
    running, wait = program.start(words)
    left = set(known)
    for line in running.stdout:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        found = _LINE.match(line)
        if found is not None and found["name"] in known:
            left.discard(found["name"])
            finish(found["name"], _ENDS.get(found["end"], "skipped"), found["why"])
    code, ended = wait()
    code = code if code >= 0 else 128 - code
    if not ended:  # the work has ended the program, and what was printed says nothing
        sys.exit(code)
    if names is None:
        _say(end, "begin", place)
        _say(end, "end", place, "failed" if code else "passed", "")
    options = [word for word in words if word in _LENIENT]
    for test in sorted(left)[:_MOST_ALONE] if code in (0, 101) else ():
        alone, printed, ended = program.run([words[0], test, "--exact", *options])
        if alone == 0 and ended and _ALONE.search(printed):
            finish(test, "passed")
        elif alone == 0 and ended and b" 1 ignored;" in printed:
            finish(test, "skipped")
        elif alone == 101:
            finish(test, "failed")
        else:
            break
    _say(end, "over", code)
    sys.exit(code)


def _start(runner, words):
    """Start a test program; any other program is started as it is."""
    is_test = words[0].endswith(".test") if runner == "go" else os.path.basename(os.path.dirname(words[0])) == "deps"
    listing = any(word.startswith(("-test.list", "-test.fuzzworker", "--list")) for word in words)
    end = _connect() if is_test and not listing else None
    _forget()
    if end is None:
        os.execv(words[0], words)
    _say(end, "hello", 1, runner)
    (_run_go if runner == "go" else _run_cargo)(end, words)


_start(sys.argv[1], sys.argv[2:])
