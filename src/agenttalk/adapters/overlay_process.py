"""A small process with a view of the file system of its own, in which it mounts overlays for the engine.

An overlay shows one tree, the *lower*, of which nothing changes, below another folder, the *upper*, which takes all
that is written. No other process sees the mounts, but one that enters this view (`keeper`), and the engine through
/proc/PID/root. When the engine is gone, so is this process, and with it every mount that no program uses any more.

A user without rights may mount in a view whose owner is a *user namespace* of its own. The process is started for each
plan, so this module imports next to nothing.
"""

from __future__ import annotations

import ctypes
import os
import sys

MOUNT, UNMOUNT, RUN = b"mount", b"unmount", b"run"
"""Requests: to mount an overlay, to unmount it, to run a program and wait for it."""
USER = "user"
"""The argument that asks for a user namespace."""

_NEW_MOUNTS, _NEW_USER = 0x0002_0000, 0x1000_0000
_RECURSIVE, _SLAVE, _DETACH = 0x4000, 0x8_0000, 2
_SPARE = b"volatile,"
"""Nothing of an upper folder has to outlast the machine, so nothing of it is synced."""
_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Take a view of its own, and answer requests until there is no engine."""
    try:
        _take_view(private_user=USER in sys.argv)
    except OSError as error:
        _answer(b"failed %d" % (error.errno or 0))
        return
    _answer(b"view %d" % os.stat("/proc/self/ns/mnt").st_ino)  # noqa: PTH116 - pathlib is slow to load
    while (size := _read(4)) and (body := _read(int.from_bytes(size, "big"))):
        kind, *words = body.split(b"\0")
        try:
            if kind == MOUNT:
                _mount_overlay(*words)
            elif kind == UNMOUNT:
                os.chdir(words[0])
                _check(_LIBC.umount2(words[1] + b"/tree", _DETACH))
            else:
                _answer(b"ended %d" % _run(words))
                continue
            _answer(b"done")
        except OSError as error:
            _answer(b"failed %d" % (error.errno or 0))
        finally:
            os.chdir("/")


def _take_view(*, private_user: bool) -> None:
    user, group = os.getuid(), os.getgid()
    _check(_LIBC.unshare(_NEW_MOUNTS | (_NEW_USER if private_user else 0)))
    if private_user:
        # The kernel lets a user without rights map a group only once `setgroups` is denied, so the order matters.
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
            os.write(descriptor, text.encode())
            os.close(descriptor)
    # Mounts of the machine still arrive here, and none of ours leaves. Private ones would miss, for example, a disk
    # that is mounted later.
    _check(_LIBC.mount(None, b"/", None, _RECURSIVE | _SLAVE, None))


def _mount_overlay(top: bytes, name: bytes, lower: bytes, options: bytes) -> None:
    """Mount over the folder NAME/tree of `top`. Its paths are relative, and their names need no escapes."""
    # Relative paths keep the options short, and free of characters that would need escapes; the kernel cuts options
    # at a page.
    os.chdir(top)
    folders = b"lowerdir=%b,upperdir=%b/upper,workdir=%b/work" % (lower, name, name)
    place = name + b"/tree"
    for spare in (_SPARE, b""):  # kernels before 5.10 do not know it
        if not _LIBC.mount(b"overlay", place, b"overlay", 0, spare + options + folders):
            return
    _check(-1)


def _run(argv: list[bytes]) -> int:
    nothing = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, nothing, number) for number in (0, 1, 2)]
    try:
        _, status = os.waitpid(os.posix_spawn(argv[0], argv, os.environ, file_actions=actions), 0)
    finally:
        os.close(nothing)
    return os.waitstatus_to_exitcode(status)


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _read(size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            return b""
        data += part
    return data


def _answer(line: bytes) -> None:
    os.write(1, line + b"\n")


if __name__ == "__main__":
    main()
