"""The keeper: a small process between the engine and a program, which owns everything that the program starts.

It is a child subreaper: a process below it that loses its parent becomes its child, with any session, group or
environment that process gave itself. So everything that a program ever started is found below the keeper, and once the
keeper has no child left, all of it is dead. The keeper kills what is left when the program has ended, and everything
when it is asked to or when the engine is gone.

It cannot own processes that a service starts at the program's request (cron, a container service), nor what is left
when a program of the same user kills its keeper first. Only a sandbox prevents that.

The control socket carries bytes. The engine sends one request (`pack_request`), then INT to interrupt the program, or
TERM to ask all processes to end; when it closes its side, all are killed. The keeper answers with lines: `starting`,
after which the program may have run; `failed STEP ERRNO` when it did not; `ended STATUS` when it has ended; `dead` when
nothing is left.

A keeper is started for every turn, so this module imports next to nothing; a test holds it to that.
"""

from __future__ import annotations

import errno
import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Collection, Mapping
else:
    import _signal as signal  # what `signal` wraps, without enum, which costs a third of the whole start

TERM = b"T"
"""Asks every process of the tree to end. The tree is killed when the engine closes its side."""

INT = b"I"
"""Sends SIGINT to the program and to its process group, as Ctrl-C in a terminal does."""

CHILDREN = "children"
"""The file of a thread that lists its children. Not every kernel has it."""

_SUBREAPER, _DEATH_SIGNAL = 36, 1
_FIRST_PAUSE, _LAST_PAUSE = 5, 1000
"""Milliseconds between two passes over a tree that is being killed."""


_STATE, _PARENT, _GROUP, _THREADS, _STARTED = 0, 1, 2, 17, 19
"""Places of fields in /proc/PID/stat, behind the name of the program."""


class Process:
    """A process, from /proc."""

    __slots__ = ("group", "parent", "pid", "started", "state", "threads")

    def __init__(self, pid: int, stat: bytes) -> None:
        fields = stat[stat.rindex(b")") + 1 :].split()  # the name in front may contain blanks and brackets
        self.pid = pid
        self.state = fields[_STATE]
        self.parent = int(fields[_PARENT])
        self.group = int(fields[_GROUP])
        self.threads = int(fields[_THREADS])
        self.started = int(fields[_STARTED])

    @property
    def is_alive(self) -> bool:
        """Return whether it can still run. The first thread may have ended before the others."""
        return self.state not in {b"Z", b"X"} or self.threads > 1


def read_proc_file(pid: int, name: str) -> bytes:
    """Read a file of a process in /proc; empty when the process is gone or belongs to another user."""
    try:
        descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
    parts = []
    try:
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
    except (ProcessLookupError, PermissionError):
        return b""
    finally:
        os.close(descriptor)
    return b"".join(parts)


def read_process(pid: int) -> Process | None:
    """Read the process with this id; None if there is none. It may be a zombie."""
    stat = read_proc_file(pid, "stat")
    return Process(pid, stat) if stat else None


def list_processes() -> list[int]:
    """List the ids of all visible processes, newest first: those are the ones that may soon be gone."""
    return [int(name) for name in reversed(os.listdir("/proc")) if name.isdigit()]  # noqa: PTH208 - pathlib is slow to load


def list_children(pid: int) -> list[int]:
    """List the children of a process, including zombies, newest first."""
    threads = f"/proc/{pid}/task"
    try:
        listings = [read_proc_file(pid, f"task/{thread}/{CHILDREN}") for thread in os.listdir(threads)]  # noqa: PTH208 - as above
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
    if not any(listings) and not os.path.exists(f"{threads}/{pid}/{CHILDREN}"):  # noqa: PTH110 - as above
        return [
            child.pid for child in map(read_process, list_processes()) if child and child.parent == pid
        ]  # a kernel without the file
    return [int(child) for children in listings for child in reversed(children.split())]


def signal_descendants(root: int, *signals: int, spare: int = 0) -> list[Process]:
    """Signal every process below another as soon as it is found; return them. Skips `spare` and those below it.

    One pass may miss processes that are forked, or lose their parent, meanwhile.
    """
    descendants = []
    parents = [root]
    while parents:
        parent = parents.pop()
        for pid in list_children(parent):
            process = None if pid == spare else read_process(pid)
            if process and process.parent == parent and process.is_alive:
                send_signals(process, *signals)
                descendants.append(process)
                parents.append(pid)
    return descendants


def send_signals(process: Process, *signals: int) -> None:
    """Send signals to exactly this process. Ignores one that is gone or belongs to another user."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except OSError:  # an old kernel, or no descriptor left
        handle = None
    try:
        now = read_process(
            process.pid
        )  # The pidfd pins one process, but the id may have been reused before: compare the start time.
        if now is None or now.started != process.started:
            return
        for number in signals:
            if handle is None:
                os.kill(process.pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended, or the id belongs to another user's process now
    finally:
        if handle is not None:
            os.close(handle)


BUBBLEWRAP, LANDLOCK = b"bubblewrap", b"landlock"
"""How a program is confined: by bubblewrap, which then is the program; or by the keeper."""
OFFLINE, GUARDED = b"offline", b"guarded"
"""Further demands: no network, by landlock; no process that reads or writes another's memory."""
NAMESPACE = b"namespace="
"""Begins the word that names a mount namespace: the id of a process in it, a colon, and its number."""
FILTER, OPTIONS = 9, 10
"""The descriptors from which bubblewrap reads the filter, and its own options."""


def pack_request(
    cwd: bytes,
    argv: Collection[bytes],
    env: Mapping[bytes, bytes],
    limits: Mapping[str, int] | None = None,
    *,
    confined: Collection[bytes] = (),
    writable: Collection[bytes] = (),
    readable: Collection[bytes] = (),
    options: Collection[bytes] = (),
) -> bytes:
    """Pack the request to start a program. Nothing in it may contain a NUL.

    `limits` are the kernel's, by their names (AS, CPU, FSIZE), and hold for each process alone. `confined` holds one
    word for each demand. `writable` and `readable` are the paths that landlock grants. `options` are those of
    bubblewrap: they are not in its argv, because every process in it can read that.
    """
    limit_list = b",".join(b"%b=%d" % (name.encode(), value) for name, value in (limits or {}).items())
    parts = [cwd, limit_list, b" ".join(confined)]
    for listed in (writable, readable, options, argv):
        parts += [b"%d" % len(listed), *listed]
    parts += [b"%b=%b" % entry for entry in env.items()]
    body = b"\0".join(parts)
    return len(body).to_bytes(8, "big") + body


def main() -> None:
    """Read the request from the control socket, whose descriptor is the argument, and carry it out."""
    control = int(sys.argv[1])
    os.set_inheritable(control, False)
    wake = _prepare()
    request = _request(control)
    if request is None:
        return
    step = b"cwd"
    try:
        if request.namespace:
            _enter(*map(int, request.namespace.split(b":")))
        os.chdir(request.cwd)
        step = b"program"
        _tell(control, b"starting")  # before the program runs, because it may kill this process at once
        program = _confined(request) if request.confined else _limited(request.argv, request.env, request.limits)
    except _NotConfinedError as error:
        _tell(control, b"failed sandbox %d" % (error.errno or 0))
        return
    except OSError as error:
        _tell(control, b"failed %b %d" % (step, error.errno or 0))
        return
    # From here on a tree exists. If anything fails now, the tree is killed before the engine hears `dead` or sees the
    # socket closed.
    keeping = _TreeKeeper(control, wake, program, spare=BUBBLEWRAP in request.confined)
    try:
        _let_go()
        keeping.watch()
    finally:
        keeping.kill()
    _tell(control, b"dead")


def _prepare() -> int:
    """Become a subreaper that only SIGKILL ends. Returns a descriptor that is readable when a child has ended."""
    import ctypes

    if ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("the system has no child subreapers")
    # A pipe and not a flag: a child that ends between `waitpid` and `poll` makes the pipe readable, so `poll`
    # returns at once. The pipe is written only for signals that have a handler, hence the empty one.
    wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # A program of the same user can signal its keeper. Nothing but SIGKILL may end the keeper before the tree is
    # dead.
    for number in _catchable() - {signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)
    # A mask is inherited by exec, and one that blocks SIGCHLD would leave us waiting for children that have ended.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return wake


def _catchable() -> set[int]:
    return {int(number) for number in signal.valid_signals()} - {signal.SIGKILL, signal.SIGSTOP}


class _Request:
    """The engine's request."""

    def __init__(self, body: bytes) -> None:
        self.cwd, self.limits, confined, *rest = body.split(b"\0")
        words = confined.split()
        self.namespace = b"".join(word[len(NAMESPACE) :] for word in words if word.startswith(NAMESPACE))
        self.confined = [word for word in words if not word.startswith(NAMESPACE)]
        self.writable, rest = _listed(rest)
        self.readable, rest = _listed(rest)
        self.options, rest = _listed(rest)
        self.argv, rest = _listed(rest)
        self.env = dict(entry.split(b"=", 1) for entry in rest)


def _enter(pid: int, number: int) -> None:
    """Enter the mount namespace of a process, and the user namespace that owns it. Raises OSError for another one."""
    import ctypes

    calls = ctypes.CDLL(None, use_errno=True)
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    user = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    ours = os.stat("/proc/self/ns/user").st_ino  # noqa: PTH116 - pathlib is slow to load
    # The process id may be another process's by now. The number tells which namespace was meant.
    if os.fstat(mounts).st_ino != number:
        raise OSError(errno.ESTALE, "that mount namespace is gone")
    # The user namespace first: entering a mount namespace takes rights in the user namespace that owns it.
    for descriptor, wanted in ((user, os.fstat(user).st_ino != ours), (mounts, True)):
        if wanted and calls.setns(descriptor, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        os.close(descriptor)


def _listed(parts: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Split a list that begins with its length from what follows it."""
    end = int(parts[0]) + 1
    return parts[1:end], parts[end:]


def _request(control: int) -> _Request | None:
    size = _read(control, 8)
    body = size and _read(control, int.from_bytes(size, "big"))
    if not body:
        return None  # the engine was gone before it sent the request
    return _Request(body)


def _read(control: int, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = os.read(control, size - len(data))
        if not part:
            return None
        data += part
    return bytes(data)


def _limited(argv: list[bytes], env: dict[bytes, bytes], limits: bytes) -> int:
    """Start the program under its limits: it inherits them, and cannot raise them afterwards."""
    if not limits:
        return _start(argv, env)
    import resource

    wanted = _wanted(limits)
    # Only the soft limits, because a process without rights can never raise a hard one again, and the keeper needs
    # its own. The program's hard limits follow once it has an id.
    for number, (least, _, hard) in wanted.items():
        resource.setrlimit(number, (least, hard))
    try:
        program = _start(argv, env)
    finally:
        for number, (_, soft, hard) in wanted.items():
            resource.setrlimit(number, (soft, hard))
    for number, (least, _, _) in wanted.items():
        try:  # noqa: SIM105 - contextlib is slow to load
            resource.prlimit(program, number, (least, least))
        except (ProcessLookupError, PermissionError):
            pass  # it has ended already
    return program


def _wanted(limits: bytes) -> dict[int, tuple[int, int, int]]:
    """Return the wanted limits, each with the current soft and hard limit."""
    import resource

    wanted = {}
    for limit in limits.decode().split(","):
        name, value = limit.split("=")
        number = getattr(resource, f"RLIMIT_{name}")
        soft, hard = resource.getrlimit(number)
        least = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        wanted[number] = (least, soft, hard)
    return wanted


class _NotConfinedError(OSError):
    """The program could not be confined, and was not started."""


def _confined(request: _Request) -> int:
    """Start the program from a process that has given up its rights, limits included."""
    program = _find(request.argv[0], request.env.get(b"PATH", b""))
    hears, says = os.pipe2(os.O_CLOEXEC)
    ours = os.getpid()
    pid = os.fork()
    if not pid:
        _become(request, program, says, ours)
    os.close(says)
    failure = os.read(hears, 64)
    os.close(hears)
    if failure:  # the pipe stays empty and is closed by exec when the program starts
        os.waitpid(pid, 0)
        step, number = failure.split()
        kind = _NotConfinedError if step == b"sandbox" else OSError
        raise kind(int(number), os.strerror(int(number)))
    return pid


def _become(request: _Request, program: bytes, says: int, keeper: int) -> None:
    """Become the program. Does not return: on failure it writes why, and exits."""
    step = b"sandbox"
    try:
        os.setsid()
        import resource

        if BUBBLEWRAP in request.confined:
            _die_with(keeper)
        _give_up(request, program)
        for number, (least, _, _) in _wanted(request.limits).items() if request.limits else ():
            resource.setrlimit(number, (least, least))
        # The pipe belongs to the keeper: a signal of the program must not be written into it.
        signal.set_wakeup_fd(-1)
        for number in _catchable():
            signal.signal(number, signal.SIG_DFL)
        step = b"program"
        os.execve(program, request.argv, request.env)  # noqa: S606 - the program itself
    except BaseException as error:  # noqa: BLE001 - after any error the program must not run
        os.write(says, b"%b %d" % (step, getattr(error, "errno", None) or errno.EINVAL))
    finally:
        os._exit(127)


def _die_with(keeper: int) -> None:
    """Have this process, and the program that it becomes, killed when the keeper is: it may carry no lease."""
    import ctypes

    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != keeper:
        raise OSError(errno.ESRCH, "the keeper is gone")


def _give_up(request: _Request, program: bytes) -> None:
    """Give up the rights that the program must not have. Raises OSError."""
    import landlock  # type: ignore[import-not-found]  # it lies beside this file, which is found without a package
    import seccomp  # type: ignore[import-not-found]  # as above; both may lie where we cannot read any more afterwards

    offline, guarded = OFFLINE in request.confined, GUARDED in request.confined
    steps = b"" if seccomp.describe_problem() else seccomp.build_filter(offline=offline, guarded=guarded)
    if BUBBLEWRAP in request.confined:
        landlock.isolate_sockets(program)
        if steps:
            seccomp.pass_data(steps, FILTER)
        seccomp.pass_data(b"".join(option + b"\0" for option in request.options), OPTIONS)
    else:
        landlock.restrict(request.writable, request.readable, network=not offline)
        seccomp.install_filter(steps)


def _start(argv: list[bytes], env: dict[bytes, bytes]) -> int:
    """Start the program in a session of its own, with no signal ignored or blocked."""
    return os.posix_spawn(
        _find(argv[0], env.get(b"PATH", b"")),
        argv,
        env,
        setsid=True,
        setsigmask=(),
        setsigdef=_catchable(),
    )


def _let_go() -> None:
    """Close the three standard pipes here, so that they are closed when the program closes them."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def _find(name: bytes, path: bytes) -> bytes:
    """Find the program in PATH. Skips an empty part of PATH, which would mean the working directory."""
    if b"/" in name:
        return name
    reason = errno.ENOENT
    for folder in filter(None, path.split(b":")):
        candidate = folder + b"/" + name
        if os.path.isfile(candidate):  # noqa: PTH113 - as above
            if os.access(candidate, os.X_OK):
                return candidate
            reason = errno.EACCES
    raise OSError(reason, os.strerror(reason))


def _tell(control: int, line: bytes) -> None:
    try:  # noqa: SIM105 - contextlib is slow to load
        os.write(control, line + b"\n")
    except OSError:
        pass  # the engine is gone


class _TreeKeeper:
    """Watches one program and everything that it starts."""

    def __init__(self, control: int, wake: int, program: int, *, spare: bool = False) -> None:
        """`spare` the program itself when all are asked to end: bubblewrap would kill those that it confines."""
        self._spare = spare
        self._control = control
        self._wake = wake
        self._program = program
        self._ended = False

    def watch(self) -> None:
        """Return when the tree is dead or has to be killed. Reaps orphans meanwhile."""
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        asked = False
        while self._any_left():
            if self._ended and not asked:
                return  # processes that outlive the program without being asked to end get no grace
            ready = [descriptor for descriptor, _ in poller.poll()]
            if self._wake in ready:
                os.read(self._wake, 4096)
            if self._control in ready:
                word = os.read(self._control, 1)
                if word == INT:
                    self._interrupt()
                    continue
                if word != TERM:
                    return
                asked = True
                # List all of them before the first signal: a process that ends at once leaves orphans, which the walk
                # over the tree would miss.
                for process in self._hunt():
                    if not (self._spare and process.pid == self._program):
                        # A stopped process handles SIGTERM only after SIGCONT.
                        send_signals(process, signal.SIGTERM, signal.SIGCONT)

    def kill(self) -> None:
        """Kill until nothing is left, however long that takes."""
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        pause = _FIRST_PAUSE
        # Without a limit: giving up would say `dead` while something lives, and the next attempt would begin beside
        # it.
        while self._any_left():
            if any(process.group == self._program for process in self._hunt(signal.SIGKILL)):
                self._kill_group()  # an empty group's id might be reused by another program
            if poller.poll(pause):
                os.read(self._wake, 4096)
            pause = min(pause * 2, _LAST_PAUSE)

    def _hunt(self, *signals: int) -> list[Process]:
        try:
            return signal_descendants(os.getpid(), *signals)
        except OSError:  # no memory or descriptor left: `kill` tries again
            return []

    def _interrupt(self) -> None:
        """Send SIGINT to the program's process group; in bubblewrap, whose end would kill all, to those it confines."""
        for process in self._hunt():
            if process.pid != self._program if self._spare else process.group == self._program:
                send_signals(process, signal.SIGINT, signal.SIGCONT)

    def _kill_group(self) -> None:
        """Kill the program's process group in one step, so that no fork escapes."""
        try:  # noqa: SIM105 - contextlib is slow to load
            os.killpg(self._program, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # the group is empty

    def _any_left(self) -> bool:
        """Reap processes that have ended. No child means no descendant, because orphans become our children."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._program and not self._ended:
                self._ended = True
                _tell(self._control, b"ended %d" % status)
