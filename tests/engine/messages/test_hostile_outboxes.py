"""Folders that were made to mislead: nothing escapes, nothing hangs, and whatever is refused is told."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agenttalk.engine.core.deps import Deps
from agenttalk.engine.messages.router import Router
from effort import cases
from kits.routerkit import Route, alerts, buried, counts, graves, inside, routed, sound, statuses
from kits.treekit import Tree, dumped, node, sha256

CANARY = b"the canary sings only outside"
NAME = "cmd_x.msg.json"
MANY = 100_000
"""Passes in which at least one message is delivered, however the machine lets threads take turns."""
SPARSE = 2 * 1024**3
STOLEN = dumped(
    {
        "schema_version": "1.0",
        "message_id": "stolen",
        "plan_id": "plan_shop",
        "producer_agent_id": "pm",
        "type": "artifact",
        "created_at": "2026-01-08T10:30:00Z",
        "task_id": "design",
        "output_name": "notes.md",
        "payload": {"files": [{"path": "secret.md", "sha256": sha256(CANARY)}]},
    }
)
"""An artifact of the plan manager that says nothing wrong, as long as the file is there."""


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder outside of the root that nobody may read or write. Its secret must never be seen again.

    It looks like an outbox, with a message that would be accepted and a file that would be delivered.
    """
    folder = tmp_path_factory.mktemp("outside")
    for name in ("secret.md", "cmd_build_001.msg.json"):
        (folder / name).write_bytes(CANARY)
    (folder / "artifact_stolen.msg.json").write_bytes(STOLEN)
    before = listing(folder)
    yield folder
    assert listing(folder) == before


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        found[str(path)] = (status.st_size, status.st_mtime_ns)
    return found


def leaked(root: Path) -> list[str]:
    """Files under the root that hold the secret."""
    found = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder) / name
            if path.is_symlink() or not path.is_file() or path.stat().st_size > 64 * 1024**2:
                continue
            if CANARY in path.read_bytes():
                found.append(str(path))
    return found


@contextmanager
def meanwhile(step: Callable[[], object]) -> Iterator[Callable[[], int]]:
    """Do a step again and again in another thread; how often it was done can be asked."""
    over = threading.Event()
    done = [0]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not over.is_set():
                step()
                done[0] += 1
        except BaseException as error:  # noqa: BLE001 - it is raised in the test's own thread
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield lambda: done[0]
    finally:
        over.set()
        thread.join(60)
    assert failures == []


def goes_on(tree: Tree, route: Route, dead: int = 1) -> None:
    """An honest message is delivered all the same, and nothing is refused twice."""
    tree.command("lead", "design")
    report = route()
    assert (report.dead, report.delivered) == (dead, 1)
    assert tree.inbox("pm") == ["cmd_design_001.msg.json"]
    assert route().dead == 0
    assert sound(tree.root)


# Things that are no files.


def fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def folder(path: Path, _: Path) -> None:
    path.mkdir()
    (path / "inside").write_bytes(b"x")


def symlink(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "secret.md")


def dangling(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "nothing")


def hard_link(path: Path, _: Path) -> None:
    other = path.parents[3] / "somebody_elses.json"
    other.write_bytes(CANARY)
    os.link(other, path)


def unix_socket(path: Path, _: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket has to be short
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(here)


def device(path: Path, _: Path) -> None:
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero: reading it never ends
    except PermissionError:
        pytest.skip("making a device needs root")


@pytest.mark.shows("M04")
@pytest.mark.parametrize(
    "make", [fifo, folder, symlink, dangling, hard_link, unix_socket, device], ids=lambda make: str(make.__name__)
)
@pytest.mark.parametrize("name", [NAME, "ack_m1.json"])
def test_what_is_no_plain_file_is_dead_lettered(
    tree: Tree, route: Route, outside: Path, make: Callable[[Path, Path], None], name: str
) -> None:
    box = tree.box("dev", "outbox")
    box.mkdir(parents=True)
    make(box / name, outside)
    goes_on(tree, route)
    buried(tree, "dev", name, "FILE_UNSAFE", None)
    assert os.path.lexists(box / ".rejected" / name)
    assert [path for path in leaked(tree.root) if not path.endswith(("somebody_elses.json", name))] == []


# Folders that lead elsewhere.


@pytest.mark.shows("M04")
@pytest.mark.parametrize("where", ["outbox", "outbox/plan_shop"])
@pytest.mark.parametrize("what", ["symlink", "file", "fifo"])
def test_a_folder_that_leads_elsewhere_is_told_once_and_left_alone(
    tree: Tree, route: Route, outside: Path, where: str, what: str
) -> None:
    path = tree.agent("dev") / where
    path.parent.mkdir(exist_ok=True)
    if what == "symlink":
        path.symlink_to(outside)
    elif what == "file":
        path.write_bytes(b"")
    else:
        os.mkfifo(path)
    dead = 0 if (where, what) == ("outbox/plan_shop", "file") else 1  # a file beside the folders is nobody's business
    goes_on(tree, route, dead)
    plan_id = "_unrouted" if where == "outbox" else "plan_shop"
    assert [each.entry["reason"]["code"] for each in graves(tree, plan_id)] == ["FILE_UNSAFE"] * dead
    assert leaked(tree.root) == []


def test_a_symlink_is_no_agent(tree: Tree, route: Route, outside: Path) -> None:
    (tree.root / "agents" / "guest").symlink_to(outside)
    tree.dag([node("build", "guest"), node("design", "pm")], agents=False)
    tree.command("lead", "build")
    goes_on(tree, route)
    assert tree.codes() == ["TARGET_AGENT_NOT_FOUND"]


@pytest.mark.parametrize("name", ["engine", "operator", "system"])
def test_a_folder_with_the_engines_name_sends_nothing(tree: Tree, route: Route, name: str) -> None:
    tree.command(name, "build")
    goes_on(tree, route, 0)
    assert tree.inbox("dev") == []
    assert (tree.box(name, "outbox") / "cmd_build_001.msg.json").exists()


@pytest.mark.parametrize("where", ["inbox", "inbox/plan_shop"])
def test_a_receivers_folder_that_leads_elsewhere_gets_nothing_and_others_go_on(
    tree: Tree, route: Route, outside: Path, where: str
) -> None:
    path = tree.agent("dev") / where
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(outside)
    message_id = tree.artifact("pm", "design", "design.md", {"design.md": b"x"})
    tree.command("lead", "build")
    route()
    assert "design.md" in tree.inbox("tester")
    assert counts(tree.root) == {"sent": 2, "in_flight": 2}
    assert {each["type"] for each in alerts(tree)} == {"FILE_UNSAFE"}
    assert len(alerts(tree)) == 2
    route()
    assert len(alerts(tree)) == 2
    path.unlink()
    assert route().delivered == 2
    assert "design.md" in tree.inbox("dev")
    assert statuses(tree, message_id) == ["DELIVERED", "DELIVERED"]
    assert sound(tree.root)


@pytest.mark.parametrize("hidden", [".sent", ".rejected"])
def test_a_place_for_what_was_taken_that_leads_elsewhere_gets_nothing(
    tree: Tree, route: Route, outside: Path, hidden: str
) -> None:
    box = tree.box("lead", "outbox")
    box.mkdir(parents=True)
    (box / hidden).symlink_to(outside)
    message_id = tree.command("lead", "build")
    tree.put("lead", "broken.msg.json", b"{")
    for _ in range(3):
        route()
    assert tree.inbox("dev") == ["cmd_build_001.msg.json"]
    assert statuses(tree, message_id) == ["DELIVERED"]
    assert counts(tree.root) == {"sent": 2, "delivered": 1, "dead": 1}
    left = "cmd_build_001.msg.json" if hidden == ".sent" else "broken.msg.json"
    assert tree.names("agents/lead/outbox/plan_shop") == [left]
    assert len(alerts(tree, "FILE_UNSAFE")) == 1
    (box / hidden).unlink()
    route()
    assert tree.names("agents/lead/outbox/plan_shop") == []
    assert sound(tree.root)


# Names, sizes, contents.


def test_a_name_that_is_not_utf8_is_dead_lettered_with_its_whole_content(tree: Tree, route: Route) -> None:
    box = tree.box("dev", "outbox")
    box.mkdir(parents=True)
    raw = os.fsencode(box) + b"/cmd_\xff\xfe.msg.json"
    Path(os.fsdecode(raw)).write_bytes(b"what it held")
    Path(os.fsdecode(os.fsencode(box.parent) + b"/plan_\xff")).mkdir()
    goes_on(tree, route)
    [grave] = graves(tree)
    assert grave.entry["reason"]["code"] == "FILE_UNSAFE"
    assert grave.entry["original"]["file_name"] == f"//{b'cmd_'.hex()}fffe.msg.json"
    assert grave.original == b"what it held"
    assert os.path.lexists(os.fsencode(box / ".rejected") + b"/cmd_\xff\xfe.msg.json")


@pytest.mark.parametrize("letter", ["x", "文", "é"])
@pytest.mark.parametrize("good", [True, False])
def test_the_longest_name_that_a_file_can_have_is_no_obstacle(
    tree: Tree, route: Route, letter: str, good: bool
) -> None:
    room = 255 - len(".msg.json")
    name = letter * (room // len(letter.encode())) + ".msg.json"
    message_id = tree.command("lead", "build", message_id="m" * 128)
    data = (tree.box("lead", "outbox") / "cmd_build_001.msg.json").read_bytes()
    for _ in range(2):
        (tree.box("lead", "outbox") / "cmd_build_001.msg.json").unlink(missing_ok=True)
        tree.put("lead", name, data if good else b"{")
        report = route()
        assert report.problems == []
        assert tree.names("agents/lead/outbox/plan_shop") == []
    assert alerts(tree, "PATH_OUTSIDE_FOLDER") == []
    if good:
        assert len(tree.inbox("dev")) == 1
        assert statuses(tree, message_id) == ["DELIVERED", "SKIPPED_DUPLICATE"]
    else:
        assert tree.codes() == ["ENVELOPE_PARSE_ERROR"] * 2
    kept = tree.names(f"agents/lead/outbox/plan_shop/{'.sent' if good else '.rejected'}")
    assert len([each for each in kept if not each.endswith(".reason.json")]) == 2
    assert sound(tree.root)


def test_a_payload_path_with_the_longest_parts_is_delivered(tree: Tree, route: Route) -> None:
    path = "/".join(["d" * 255, "e" * 255, "f" * 255])
    tree.artifact("pm", "design", "design.md", {path: b"x"})
    assert route().delivered == 2
    assert (tree.box("dev", "inbox") / path).read_bytes() == b"x"


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def test_a_payload_of_two_gibibytes_is_refused_without_being_read(tree: Tree, route: Route) -> None:
    files = [{"path": "big.bin", "sha256": sha256(b"")}]
    tree.artifact("pm", "design", "design.md", {"design.md": b"x"}, payload={"files": files})
    sparse(tree.box("pm", "outbox") / "big.bin", SPARSE)
    goes_on(tree, route)
    assert tree.codes() == ["FILE_TOO_LARGE"]


@pytest.mark.parametrize("megabytes", [2, 300])
def test_an_envelope_that_is_too_large_is_refused(tree: Tree, route: Route, megabytes: int) -> None:
    box = tree.box("dev", "outbox")
    box.mkdir(parents=True)
    sparse(box / NAME, megabytes * 1024**2)
    goes_on(tree, route)
    [grave] = graves(tree)
    assert grave.entry["reason"]["code"] == "FILE_TOO_LARGE"
    assert (box / ".rejected" / NAME).stat().st_size == megabytes * 1024**2
    assert grave.original == (None if megabytes == 300 else bytes(2 * 1024**2))


@pytest.mark.parametrize(
    "path", ["../secret.md", "a/../../secret.md", "/etc/hostname", "a//b", "./a", "a/.", "", "\x00"]
)
def test_a_payload_path_that_leaves_is_refused(tree: Tree, route: Route, outside: Path, path: str) -> None:
    tree.artifact(
        "pm", "design", "design.md", {"x": b"x"}, payload={"files": [{"path": path, "sha256": sha256(CANARY)}]}
    )
    goes_on(tree, route)
    assert tree.codes() == ["PATH_OUTSIDE_FOLDER"]
    assert outside.exists()


def test_a_payload_behind_a_link_is_refused(tree: Tree, route: Route, outside: Path) -> None:
    files = [{"path": "sub/secret.md", "sha256": sha256(CANARY)}]
    tree.artifact("pm", "design", "design.md", {"x": b"x"}, payload={"files": files})
    (tree.box("pm", "outbox") / "sub").symlink_to(outside)
    goes_on(tree, route)
    assert tree.codes() == ["FILE_UNSAFE"]
    assert leaked(tree.root) == []


# Whoever is quick.


def valid_order(tree: Tree, number: int, evil: bytes = b"") -> bytes:
    command = {
        "schema_version": "1.0",
        "plan_id": "plan_shop",
        "task_id": "build",
        "command_id": f"cmd_build_{number:05d}",
        "command_seq": number,
        "dag_ref": {"sha256": tree.dags["plan_shop"]},
        "prompt": "Do it." + evil.decode(),
        "required_inputs": [],
        "wait_for_inputs": False,
        "score_required": False,
        "timeout": 60,
    }
    return dumped(
        {
            "schema_version": "1.0",
            "message_id": f"m{number}",
            "plan_id": "plan_shop",
            "producer_agent_id": "lead",
            "type": "command",
            "created_at": "2026-01-08T10:30:00Z",
            "task_id": "build",
            "command_id": f"cmd_build_{number:05d}",
            "payload": {"command": command},
        }
    )


def test_what_is_swapped_while_it_is_judged_is_delivered_as_it_was_judged(tree: Tree) -> None:
    box = tree.box("lead", "outbox")
    box.mkdir(parents=True)
    valid: set[str] = set()
    numbers = iter(range(1, 100_000))

    def swap() -> None:
        number = next(numbers)
        good = valid_order(tree, number)
        evil = good.replace(b'"lead"', b'"engine"').replace(b"Do it.", CANARY)
        valid.add(sha256(good))
        for data in (good, evil, good[: len(good) // 2], evil):
            temporary = box / ".tmp"
            temporary.write_bytes(data)
            temporary.rename(box / NAME)

    async def use(deps: Deps) -> int:
        router = Router(deps)
        delivered = passes = 0
        while passes < cases(30) or (not delivered and passes < MANY):
            delivered += (await router.pass_()).delivered
            passes += 1
        return delivered

    with meanwhile(swap) as swapped:
        delivered = inside(tree.root, use)
    routed(tree.root)
    assert swapped() > 30
    assert delivered > 0
    for line in tree.journal():
        if line["status"] == "DELIVERED":
            assert line["envelope_sha256"] in valid
    for path in tree.box("dev", "inbox").glob("*.msg.json"):
        assert sha256(path.read_bytes()) in valid
    assert CANARY not in b"".join(path.read_bytes() for path in tree.box("dev", "inbox").iterdir() if path.is_file())
    assert sound(tree.root)


def test_a_payload_that_is_swapped_is_delivered_as_its_envelope_says_or_not_at_all(tree: Tree) -> None:
    box = tree.box("pm", "outbox")
    box.mkdir(parents=True)
    contents = [b"good " * 20_000, b"evil " * 20_000]
    numbers = iter(range(1, 100_000))

    def swap() -> None:
        for data in contents:
            (box / ".tmp").write_bytes(data)
            (box / ".tmp").rename(box / "notes.md")

    def send() -> None:
        number = next(numbers)
        tree.artifact(
            "pm",
            "design",
            "notes.md",
            {},
            seq=number,
            message_id=f"m{number}",
            payload={"files": [{"path": "notes.md", "sha256": sha256(contents[0])}]},
        )

    async def use(deps: Deps) -> None:
        router = Router(deps)
        for _ in range(cases(20)):
            send()
            await router.pass_()
            for path in tree.box("dev", "inbox").glob("*.m*"):
                assert path.suffix == ".json" or path.read_bytes() == contents[0]
                path.unlink()

    swap()
    with meanwhile(swap):
        inside(tree.root, use)
    assert set(tree.codes()) <= {"PAYLOAD_HASH_MISMATCH", "MISSING_PAYLOAD"}
    assert sound(tree.root)


SWAPS = cases(100_000)
BOTH = {"MISSING_PAYLOAD", "FILE_UNSAFE"}
"""What such an envelope is refused with, when the folder is honest and when it is not."""


@pytest.mark.random
@pytest.mark.shows("M04")
def test_a_folder_that_is_replaced_by_a_link_again_and_again_never_leads_out(tree: Tree, outside: Path) -> None:
    """The same envelope lies inside and outside, and only outside there is the file that would fit it."""
    box = tree.box("pm", "outbox")
    box.mkdir(parents=True)
    aside, link = box.with_name("aside"), box.with_name("link")
    link.symlink_to(outside)
    folder = os.open(box, os.O_RDONLY | os.O_DIRECTORY)  # the honest folder, whatever its name is

    def replace() -> None:
        box.rename(aside)
        link.rename(box)
        box.rename(link)
        aside.rename(box)

    async def use(deps: Deps, swapped: Callable[[], int]) -> int:
        router, passes = Router(deps), 0
        while swapped() < SWAPS or not set(tree.codes()) >= BOTH:
            (tree.root / "again.json").write_bytes(STOLEN)
            os.rename(tree.root / "again.json", "artifact_stolen.msg.json", dst_dir_fd=folder)
            await router.pass_()
            passes += 1
            assert passes < SWAPS, f"only {set(tree.codes())} in {passes} passes"
        return passes

    try:
        with meanwhile(replace) as swapped:
            inside(tree.root, lambda deps: use(deps, swapped))
    finally:
        os.close(folder)
    assert leaked(tree.root) == []
    assert tree.inbox("dev") == []
    assert set(tree.codes()) == BOTH
    assert sound(tree.root)


def test_an_agent_cannot_hold_up_others_with_what_the_machine_will_not_read(tree: Tree, route: Route) -> None:
    """Receivers who put something in the way get their messages later; nobody else waits."""
    inbox = tree.box("dev", "inbox")
    (inbox / "notes.md").mkdir(parents=True)
    (inbox / "notes.md" / "in the way").touch()
    message_id = tree.artifact("pm", "design", "notes.md", {"notes.md": b"x"})
    tree.artifact("pm", "design", "design.md", {"design.md": b"x"})
    report = route()
    assert report.delivered == 2
    assert not (inbox / f"artifact_{message_id}.msg.json").exists()  # who sees the envelope sees everything
    assert counts(tree.root) == {"sent": 2, "delivered": 1, "in_flight": 1}
    [alert] = alerts(tree, "FILE_UNWRITABLE")
    assert alert["details"]["hint"] == "move the folder of this name out of the way"
    shutil.rmtree(inbox / "notes.md")
    assert route().delivered == 1
    assert statuses(tree, message_id) == ["DELIVERED"]


def test_ten_thousand_levels_are_refused_quickly(tree: Tree, route: Route) -> None:
    tree.put("dev", NAME, b"[" * 10_000 + b"]" * 10_000)
    tree.put("dev", "ack_m.json", b'{"a":' * 10_000 + b"1" + b"}" * 10_000)
    goes_on(tree, route, 2)
    assert tree.codes() == ["ENVELOPE_PARSE_ERROR", "ENVELOPE_PARSE_ERROR"]


def test_texts_of_others_stay_data_in_what_we_write(tree: Tree, route: Route) -> None:
    name = "cmd_\n\x1b[31m'; DROP TABLE plans; --.msg.json"
    tree.put("dev", name, dumped({"type": "\x1b[31m", "message_id": "x\ny"}))
    goes_on(tree, route)
    [grave] = graves(tree)
    assert grave.entry["original"]["file_name"] == name
    for line in (tree.plan_folder() / "deliveries.jsonl").read_bytes().splitlines():
        json.loads(line)


def test_a_receiver_that_is_a_path_stops_the_plan_and_nothing_is_written_there(tree: Tree, route: Route) -> None:
    folder = tree.plan_folder()
    data = json.loads((folder / "task_dag.json").read_bytes())
    data["nodes"][0]["outputs"][0]["deliver_to"] = ["../../outside"]
    raw = dumped(data)
    (folder / "task_dag.json").write_bytes(raw)
    pointer = json.loads((folder / "active_dag_ref.json").read_bytes())
    (folder / "active_dag_ref.json").write_bytes(dumped({**pointer, "task_dag_sha256": sha256(raw)}))
    tree.artifact("pm", "design", "design.md", {"design.md": b"x"})
    assert route().waiting == 1
    assert not (tree.root.parent / "outside").exists()
