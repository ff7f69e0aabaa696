"""Checks that run a command: what passes, what they may reach, and that nothing of them lives on."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from adapters.checking.bench import HERE, Bench, check
from agenttalk.adapters import sandbox
from agenttalk.adapters.checking.checker import CheckFacts
from agenttalk.adapters.checking.command import CheckLimits
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.sandboxes import Sandboxes
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, MachineError
from agenttalk.ports.agents import ProgramTurn, TurnEnd
from agenttalk.rules.proof.evidence import cache_key
from kits.sandboxkit import needs

DAEMON = """
mkfifo ready
env -i setsid sh -c 'echo > ready; exec sleep 1000' &
read line < ready
"""
"""Leaves behind a process without parent, session or environment of its own."""


def python(code: str) -> str:
    return f"{sys.executable} -I -S -c {shlex.quote(code)}"


def test_a_command_that_ends_with_0_passes_and_what_it_printed_is_kept(bench: Bench) -> None:
    result = bench.run("echo out; echo err >&2; cat; pwd")
    printed = f"out\nerr\n{bench.checkout.resolve()}\n"
    assert (result.passed, result.reason, result.trust, result.exit_code) == (True, "", "executed", 0)
    assert result.output == printed
    assert result.output_sha256 == "sha256:" + hashlib.sha256(printed.encode()).hexdigest()
    assert result.output_bytes == len(printed)
    assert result.isolated is bench.isolated
    assert result.started <= result.ended
    assert result.fingerprint.argv == ("sh", "-c", "echo out; echo err >&2; cat; pwd")
    assert cache_key(result.fingerprint)


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("no-such-program", 127), ("kill -9 $$", None)])
def test_a_command_that_ends_otherwise_does_not_pass(bench: Bench, script: str, code: int | None) -> None:
    result = bench.run(script)
    assert not result.passed
    assert result.reason in {"exit_code", "killed"}
    assert result.exit_code in {code, 137}


def test_a_command_that_prints_nothing_and_ends_with_0_passes(bench: Bench) -> None:
    result = bench.run(":")
    assert (result.passed, result.output, result.output_bytes) == (True, "", 0)


def test_a_command_that_hangs_is_ended_at_its_time_limit(bench: Bench) -> None:
    for limit in (1, 8, 40):  # how long it takes to get going is a matter of the machine
        result = bench.run("trap '' TERM; echo going; sleep 1000; sleep 1000", timeout=limit)
        assert (result.passed, result.reason) == (False, "timeout")
        assert (result.ended - result.started).total_seconds() < limit + 20
        if result.output:
            break
    assert result.output == "going\n"


@pytest.mark.parametrize("script", ["sleep 1000 & sleep 1000 & exit 0", DAEMON], ids=["forks", "daemonises"])
def test_what_a_command_leaves_behind_is_dead_when_the_check_is_over(bench: Bench, script: str) -> None:
    result = bench.run(script)
    assert (result.passed, result.reason) == (True, "")
    assert bench.left_behind() == []


def test_a_command_that_floods_its_output_is_ended_and_does_not_pass(bench: Bench) -> None:
    limits = CheckLimits(seconds=30, output_bytes=200_000)
    result = bench.run("yes; :", context={"limits": limits})
    assert (result.passed, result.reason) == (False, "output_limit")
    assert (result.ended - result.started).total_seconds() < 20
    quick = bench.run("head -c 300000 /dev/zero", context={"limits": limits})
    assert (quick.passed, quick.reason, quick.output_bytes) == (False, "output_limit", quick.output_bytes)
    assert 200_000 < quick.output_bytes <= 300_000
    assert len(quick.output) == 16 * 1024


@pytest.mark.rest_but("boxed")
@pytest.mark.parametrize(
    ("code", "limits"),
    [
        ("while True: pass", CheckLimits(seconds=30, cpu_seconds=1)),
        ("x = bytearray(1 << 30)", CheckLimits(seconds=30, memory_bytes=1 << 29)),
        ("open('big', 'wb').write(bytes(1 << 20))", CheckLimits(seconds=30, file_bytes=1 << 16)),
    ],
    ids=["processor", "memory", "files"],
)
def test_a_command_that_takes_more_than_it_may_does_not_pass(bench: Bench, code: str, limits: CheckLimits) -> None:
    result = bench.run(python(code), context={"limits": limits})
    assert not result.passed
    assert result.reason in {"exit_code", "killed"}


def test_a_command_sees_nothing_of_our_environment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTTALK_TOKEN", "secret")
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    result = bench.run("env; cat /proc/self/environ; cat /proc/$PPID/environ", env={"OWN": "1"})
    names = {line.partition("=")[0] for line in result.output.replace("\0", "\n").splitlines() if "=" in line}
    assert names >= {"PATH", "HOME", "TMPDIR", "LANG", "OWN"}
    assert names <= {
        "PATH",
        "HOME",
        "TMPDIR",
        "LANG",
        "OWN",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "USER",
        "LOGNAME",
        "SHELL",
        *(() if bench.tier == "bubblewrap" else ("AGENTTALK_LEASE",)),
    }
    assert "secret" not in result.output
    around = "; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'" if bench.tier == "bubblewrap" else ""
    own = bench.run("env" + around, env={"OWN": "1"})
    ours = [line for line in own.output.splitlines() if "agenttalk" in line.lower()]
    leases = [line for line in ours if line.startswith("AGENTTALK_LEASE=check")]
    assert ours == ([] if bench.tier == "bubblewrap" else leases)


def test_a_command_has_a_home_of_its_own_that_is_gone_afterwards(bench: Bench) -> None:
    result = bench.run(
        'touch "$HOME/a" "$TMPDIR/b" && mkdir "$HOME/c" && touch "$HOME/c/d" && chmod 0 "$HOME/c" && echo $HOME'
    )
    assert result.passed
    assert result.output.strip() != str(Path.home())
    assert bench.isolated or not Path(result.output.strip()).exists()


@pytest.mark.rest_but("boxed")
def test_whatever_a_command_leaves_in_its_temporary_folders_is_removed(bench: Bench) -> None:
    deep = "import os\nos.chdir(os.environ['TMPDIR'])\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')"
    assert bench.run(python(deep)).passed
    assert bench.run(
        'cd "$TMPDIR" && ln -s / link && mkdir -p .lifted-1/.lifted-1 && mkfifo home/f && chmod 0 .'
    ).passed


def test_programs_of_the_checkout_do_not_pass_for_those_of_the_system(bench: Bench) -> None:
    bench.write(bin__tool="#!/bin/sh\nexit 0\n", tool="#!/bin/sh\nexit 0\n")
    for tool in (bench.checkout / "bin/tool", bench.checkout / "tool"):
        tool.chmod(0o755)
    link = bench.path / "link"
    link.symlink_to(bench.checkout / "bin")
    path = f".::bin:{bench.checkout}/bin:{bench.checkout}:{link}:{bench.context.path}"
    assert bench.run("tool", context={"path": path}).exit_code == 127
    assert bench.run("bin/tool", context={"path": path}).passed


def test_a_command_or_a_variable_that_cannot_be_is_told(bench: Bench) -> None:
    for result in (bench.run(":", env={"A=B": "c"}), bench.run("echo \0")):
        assert (result.passed, result.reason) == (False, "not_started")


def test_a_command_runs_in_a_folder_of_the_checkout_and_nowhere_else(bench: Bench) -> None:
    bench.write(sub__a="x")
    (bench.checkout / "out").symlink_to("/")
    assert bench.run("test -f a", cwd="sub").passed
    assert bench.run(":", cwd="none").reason == "missing"
    assert bench.run(":", cwd="out").reason == "unsafe"


def test_a_checks_own_files_must_be_as_they_were_promised(bench: Bench) -> None:
    bench.write(probe_sh="exit 0")
    made = check("run", run="sh probe.sh", files=["probe.sh"])
    good = CheckFacts(tree="sha256:t", files={"probe.sh": wire.sha256(b"exit 0")})
    result = bench.make(made, good)
    assert result.passed
    assert result.fingerprint.files == good.files
    assert bench.make(made, CheckFacts()).reason == "check_file"
    assert bench.make(made, replace(good, files={"probe.sh": wire.sha256(b"")})).reason == "check_file"
    (bench.checkout / "probe.sh").unlink()
    assert bench.make(made, good).reason == "check_file"


def test_a_failure_is_run_again_in_a_fresh_checkout_and_called_flaky(bench: Bench) -> None:
    bench.write(count="0")
    made: list[SafeFolder] = []

    async def again() -> SafeFolder:
        folder = SafeFolder.open(bench.copy(f"again{len(made)}"))
        made.append(folder)
        (folder.path / "count").write_text(str(len(made)))
        return folder

    script = "touch spoilt; test $(cat count) -ge 2"
    result = bench.make(check("run", run=script, retries=3), again=again)
    assert (result.passed, result.flaky, len(made)) == (True, ("c",), 2)
    assert not (made[1].path / "spoilt").samefile(bench.checkout / "spoilt")
    assert bench.make(check("run", run=script, retries=3)).flaky == ()
    assert not bench.make(check("run", run="false", retries=1), again=again).passed
    assert len(made) == 3
    for folder in made:
        folder.close()


def test_cancelling_a_check_kills_its_processes_first(bench: Bench) -> None:
    going = bench.checkout / "going"
    os.mkfifo(going)

    async def whole() -> None:
        with SafeFolder.open(bench.checkout) as folder:
            made = check("run", run="sleep 1000 & echo > going; sleep 1000")
            task = asyncio.ensure_future(bench.checker().check(made, folder, CheckFacts(), bench.context))
            assert await asyncio.to_thread(going.read_text) == "\n"
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert bench.left_behind() == []

    asyncio.run(whole())


class Failing:
    """A driver whose processes cannot be ended, or that breaks."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def run(self, turn: ProgramTurn) -> TurnEnd:
        assert turn.argv
        raise self._error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MachineError(Code.PROCESS_STUCK, "it lives"), "stuck"),
        (RuntimeError("broken"), "fault"),
    ],
)
def test_a_machine_that_fails_is_a_check_that_did_not_pass(plain: Bench, error: Exception, reason: str) -> None:
    result = replace(plain, driver=Failing(error)).run(":")
    assert (result.passed, result.reason) == (False, reason)
    assert str(error) in result.detail
    plain.write(a_json="{}")
    judged = replace(plain, driver=Failing(error)).make(check("json", path="a.json", schema={}))
    assert (judged.passed, judged.reason) == (False, reason)


def test_without_a_checkout_no_command_is_run(plain: Bench) -> None:
    result = asyncio.run(plain.checker().check(check("run", run=":"), None, CheckFacts(), plain.context))
    assert (result.passed, result.reason) == (False, "facts_missing")


def test_a_place_that_cannot_be_written_is_a_check_that_did_not_pass(plain: Bench) -> None:
    result = plain.run(":", context={"temporary": Path("/nowhere")})
    assert (result.passed, result.reason) == (False, "fault")


# The sandbox


def without_landlock(bubblewrap: Callable[[], Path | None]) -> ScriptDriver:
    boxes = Sandboxes(bubblewrap=bubblewrap, offline=lambda **_: "the kernel has no landlock")
    return ScriptDriver(LocalProcesses(), grace=0.2, sandboxes=boxes)


def test_where_no_sandbox_is_a_demanded_one_is_not_done_without(plain: Bench, tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho bwrap: no permission >&2\nexit 1\n")
    broken.chmod(0o755)
    for found in (None, broken, tmp_path / "none"):
        bench = replace(plain, tier="best", driver=without_landlock(partial(Path, found) if found else lambda: None))
        result = bench.run("touch ran", context={"isolation": "required"})
        assert (result.passed, result.reason) == (False, "not_isolated")
        assert "apt-get install bubblewrap" in result.detail
        assert not (bench.checkout / "ran").exists()
        assert bench.run(":").isolated is False
    assert plain.run(":", context={"isolation": "required"}).reason == "not_isolated"
    named = replace(bench, tier="bubblewrap").run("touch ran")
    assert (named.reason, named.isolated) == ("not_isolated", False)


@pytest.mark.mends("F7")
def test_a_check_runs_at_least_in_the_sandbox_of_its_agent(plain: Bench) -> None:
    needs("landlock")
    none = replace(plain, tier="best", driver=without_landlock(lambda: None))
    for tier in ("landlock", "bubblewrap"):
        result = none.make(check("run", run="touch ran"), CheckFacts(tree="sha256:t", tier=tier))
        assert (result.passed, result.reason, result.isolated) == (False, "not_isolated", False)
    landlock = ScriptDriver(LocalProcesses(), grace=0.2, sandboxes=Sandboxes(bubblewrap=lambda: None))
    some = replace(plain, tier="best", driver=landlock)
    assert some.make(check("run", run=":"), CheckFacts(tree="sha256:t", tier="landlock")).isolated is True
    result = some.make(check("run", run="touch ran"), CheckFacts(tree="sha256:t", tier="bubblewrap"))
    assert result.reason == "not_isolated"
    assert "made in bubblewrap" in result.detail
    assert not (plain.checkout / "ran").exists()


@pytest.mark.mends("F7")
def test_where_landlock_cannot_take_the_network_away_it_still_confines(plain: Bench) -> None:
    needs("landlock")
    old = Sandboxes(bubblewrap=lambda: None, offline=lambda *, network: "" if network else "too old")
    bench = replace(plain, tier="best", driver=ScriptDriver(LocalProcesses(), grace=0.2, sandboxes=old))
    outside = bench.path / "outside"
    result = bench.run(f"touch {outside}")
    assert (result.passed, result.isolated) == (False, True)
    assert not outside.exists()


def test_in_the_sandbox_a_demanded_one_is_there(boxed: Bench) -> None:
    assert boxed.run(":", context={"isolation": "required"}).isolated is True


def test_a_sandbox_that_breaks_later_is_not_taken_for_the_command(boxed: Bench, tmp_path: Path) -> None:
    once = tmp_path / "once"
    once.write_text(
        f'#!/bin/sh\nif mkdir {tmp_path}/used 2>/dev/null; then exec {sandbox.find_bubblewrap()} "$@"; fi\n'
        "echo bwrap: no room >&2\nexit 1\n"
    )
    once.chmod(0o755)
    driver = ScriptDriver(LocalProcesses(), grace=0.2, sandboxes=Sandboxes(bubblewrap=lambda: once))
    result = replace(boxed, driver=driver).run("exit 0")
    assert (result.passed, result.reason) == (False, "not_started")
    assert "no room" in result.detail


@pytest.mark.parametrize("fails", [1, 4, 5])
def test_a_mount_of_the_machine_that_goes_while_the_sandbox_is_set_up_is_no_end_of_the_command(
    boxed: Bench, tmp_path: Path, fails: int
) -> None:
    """Bubblewrap lists the mounts and then restricts each of them; any program may unmount one in between."""
    tried = tmp_path / "tried"
    racing = tmp_path / "racing"
    racing.write_text(
        f'#!/bin/sh\ncase "$*" in *ran-here*) echo >>{tried}; if [ $(wc -l <{tried}) -le {fails} ]; then\n'
        'echo "bwrap: Can\'t bind mount /oldroot/ on /newroot/: Unable to apply mount flags: remount x" >&2; exit 1\n'
        f'fi;; esac\nexec {sandbox.find_bubblewrap()} "$@"\n'
    )
    racing.chmod(0o755)
    driver = ScriptDriver(LocalProcesses(), grace=0.2, sandboxes=Sandboxes(bubblewrap=lambda: racing))
    result = replace(boxed, driver=driver).run("echo once >>ran-here")
    assert (result.passed, result.reason) == ((True, "") if fails < 5 else (False, "not_started"))
    assert len(tried.read_text().splitlines()) == min(fails + 1, 5)
    if result.passed:
        assert (boxed.checkout / "ran-here").read_text() == "once\n"


def connects(port: int) -> str:
    return python(f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)")


def test_there_is_no_network_in_the_sandbox_unless_asked_for(boxed: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not boxed.run(connects(port)).passed
        assert boxed.run(connects(port), context={"network": True}).passed


def test_nothing_outside_of_the_checkout_can_be_written_in_the_sandbox(boxed: Bench) -> None:
    outside = boxed.path / "outside"
    script = f"touch {outside} /agenttalk-was-here {Path.cwd()}/was-here; touch inside"
    assert boxed.run(script).passed
    assert (boxed.checkout / "inside").exists()
    assert not outside.exists()
    assert not Path("/agenttalk-was-here").exists()
    assert not (Path.cwd() / "was-here").exists()
    assert not boxed.run("touch /dev/was-here").passed  # its /dev is memory that nobody counts


def test_what_is_masked_cannot_be_read_in_the_sandbox(boxed: Bench) -> None:
    place = boxed.path / "root"
    (place / "data" / "blobs").mkdir(parents=True)
    for name in ("data/system.db", "data/blobs/one", "operator.toml"):
        (place / name).write_text(f"hidden {name}")
    (place / "plain.txt").write_text("seen")
    script = f"cat {place}/data/system.db {place}/data/blobs/one {place}/operator.toml {place}/plain.txt"
    said = {"masked": (place / "data", place / "operator.toml", place / "none"), "readable": (place,)}
    result = boxed.run(script, context=said)
    assert "seen" in result.output
    assert "hidden" not in result.output
    inner = {**said, "readable": (place, place / "data" / "blobs")}
    assert boxed.run(script, context=inner).output.count("hidden") == 1


def test_a_masked_folder_in_the_checkout_is_hidden_and_one_around_it_does_not_hide_it(boxed: Bench) -> None:
    boxed.write(secret__key="hidden", a="seen")
    result = boxed.run("cat secret/key a", context={"masked": (boxed.checkout / "secret", boxed.path)})
    assert "seen" in result.output
    assert "hidden" not in result.output


@pytest.mark.shows("E02")
def test_other_processes_and_temporary_files_cannot_be_seen_in_the_sandbox(boxed: Bench) -> None:
    seen = boxed.run("ls /proc | grep -c '^[0-9]'; ls -A /run /var/tmp; ls -A /tmp")
    assert int(seen.output.split()[0]) < 10
    shown = {path.parts[2] for path in (boxed.checkout.resolve(), *HERE) if path.parts[1] == "tmp"}
    assert set(seen.output.split()[1:]) == {"/run:", "/var/tmp:", "home"} | shown


def test_a_command_whose_view_of_the_checkout_is_gone_does_not_pass(layered: Bench) -> None:
    namespace = layered.context.namespace
    assert namespace is not None
    assert layered.run("true").passed
    for gone in (namespace._replace(number=namespace.number + 1), namespace._replace(pid=1 << 30)):
        result = replace(layered, context=replace(layered.context, namespace=gone)).run("true")
        assert (result.passed, result.reason) == (False, "not_started")


@pytest.mark.mends("C12")
@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_a_tool_that_is_installed_below_tmp_is_there_and_what_lies_beside_it_is_not(boxed: Bench, tier: str) -> None:
    if tier == "landlock":
        needs(tier)
    with tempfile.TemporaryDirectory() as folder:
        bin_ = Path(folder) / "env" / "bin"
        bin_.mkdir(parents=True)
        (bin_ / "tool").write_text("#!/bin/sh\ncat ${0%/bin/tool}/lib\n")
        (bin_ / "tool").chmod(0o755)
        (bin_.parent / "lib").write_text("a library")
        (Path(folder) / "note").write_text("not for it")
        context = {"path": f"{bin_}:{os.defpath}", "sandbox": tier}
        assert "a library" in boxed.run("tool", context=context).output
        assert boxed.run(f"tool && ! cat {folder}/note && ! touch {bin_}/more", context=context).passed
        assert not boxed.run(f"cat {bin_}/../lib", context=context).passed, "only a program that is named is shown"
