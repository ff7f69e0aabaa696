"""What a hostile page, name or file can do in a browser that is logged in: nothing."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import apsw
import pytest

from agenttalk.adapters.drivers.python_calls import Agent, Turn
from agenttalk.adapters.store import blobs
from agenttalk.engine.core.boards import DEFAULT
from doors.pages.browserkit import Eyes, Served, elsewhere, eyes, served
from kits.plankit import plan, task

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.rest

__all__ = ["eyes"]
GIB = 2**30
ZEROS = "sha256:49bc20df15e412a64472421e13fe86ff1c5165e18b2afccf160d4dc19fe68a14"
"""The hash of so many zeros."""
SECRET = "nobody may read this"
MARKDOWN = (
    "# Done\n[click](javascript:alert(1)) ![seen](http://spy.test/pixel.png) <http://spy.test/>\n"
    "<iframe src=http://spy.test></iframe><base href=http://spy.test/><style>*{display:none}</style>\n"
    "<meta http-equiv=refresh content='0;url=http://spy.test/'><form action=http://spy.test><button>Approve</button>"
    "</form>\n</pre></main><script>alert(2)</script>```html\n<img src=x onerror=alert(3)>\n```"
)
SVG = "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(4)'><script>alert(5)</script></svg>"
HTML = "<!doctype html><script>alert(6); fetch('/plans/p/steer', {method: 'POST'})</script><h1 id=ran>ran</h1>"
NAMED = {"a.svg": SVG, "b.html": HTML, "<img src=x onerror=alert(7)>.txt": "x", "%2e%2e%2f%2e%2e%2fx": "y"}
ODD = ("../up.txt", "/abs.txt", "line\nbreak.txt", "a/../../b.txt")
LINKS = "import os; os.symlink(os.environ['SECRET_FILE'], os.path.join(os.environ['AGENTTALK_OUTPUTS'], 'made.txt'))"
MADE = [{"name": "made", "deliverable": True}]


async def maker(turn: Turn) -> str:
    turn.outputs["made"] = dict(NAMED)
    return MARKDOWN


async def large(turn: Turn) -> str:
    turn.outputs["made"] = "0" * 70_000  # too large for the database, so it is a file
    return "ok"


async def odd(turn: Turn) -> str:
    turn.outputs["made"] = {ODD[int(turn.task_id[-1])]: SECRET}
    return "ok"


async def fails(turn: Turn) -> str:
    raise RuntimeError(MARKDOWN if turn.attempt else "")


def planned(secret: Path) -> Any:
    program = [sys.executable, "-c", f"import os; os.environ['SECRET_FILE'] = {str(secret)!r}\n{LINKS}"]
    return plan(
        task("made", "maker", prompt=MARKDOWN, outputs=MADE),
        task("large", "large", outputs=MADE),
        task("fails", "fails", retry_times=0),
        task("links", "linker", outputs=[{"name": "made.txt", "deliverable": True}], retry_times=0),
        *(task(f"odd{number}", "odd", outputs=MADE, retry_times=0) for number in range(len(ODD))),
        task("asks", "h"),
        agents={"h": {"driver": "human"}, "linker": {"driver": "script", "argv": program}},
        policies={"max_reexecute_times": 0},
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An engine whose plan has come as far as it can."""
    folder = tmp_path_factory.mktemp("hostile")
    runtime = tempfile.mkdtemp(prefix="at-")
    (folder / "secret.txt").write_text(SECRET)
    agents: dict[str, Agent] = {"maker": maker, "large": large, "odd": odd, "fails": fails}
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        patched.setenv("XDG_RUNTIME_DIR", runtime)
        with served(folder / "root", planned(folder / "secret.txt"), agents=agents) as found:
            found.do(_still, found)
            _made_large(found, folder / "root")
            yield found
    shutil.rmtree(runtime)


async def _still(found: Served) -> None:
    from agenttalk.engine.views import plan_status

    async with asyncio.timeout(300):
        while (await plan_status.read_plan_status(found.running.service.deps, "p"))["result"] == "running":  # noqa: ASYNC110 - as people do
            await asyncio.sleep(0.05)


def _made_large(found: Served, root: Path) -> None:
    """Have a file of the plan be of a size that no test could wait for: a hole in a file, and its true hash."""

    async def stored() -> Path:
        held: Any = await found.running.service.deps.stores.blobs(DEFAULT)
        return Path(held._folder)

    path = blobs.blob_path(found.do(stored), ZEROS)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(GIB)
    [database] = root.glob(f"data/projects/{DEFAULT}/*.db")
    connection = apsw.Connection(str(database))
    connection.set_busy_timeout(20_000)
    where = "plan_id = 'p' AND task_id = 'large' AND type = 'artifact'"
    rows: list[Any] = connection.execute(f"SELECT id, envelope FROM messages WHERE {where}").fetchall()
    [(number, envelope)] = rows
    told = re.sub(r"sha256:\w{64}(?=[^}]*\"size_bytes\")", ZEROS, bytes(envelope).decode())
    told = re.sub(r'"size_bytes":\d+', f'"size_bytes":{GIB}', told)
    assert ZEROS in told
    connection.execute("UPDATE messages SET envelope = ? WHERE id = ?", (told.encode(), number))
    connection.close()


@pytest.fixture(scope="module")
def inside(site: Served, eyes: Eyes) -> Iterator[BrowserContext]:
    """A browser that is logged in."""
    page = eyes.look(site.link())
    yield page.context
    page.context.close()


@pytest.fixture
def page(inside: BrowserContext, eyes: Eyes) -> Iterator[Page]:
    eyes.complaints.clear()
    found = inside.new_page()
    found.on("dialog", eyes._dialog)
    yield found
    found.close()
    assert not [each for each in eyes.complaints if each.startswith("dialog")], "nothing of theirs ran"


def cookie(inside: BrowserContext) -> dict[str, Any]:
    known = [dict(each) for each in inside.cookies() if each.get("domain") == "127.0.0.1"]
    [found] = [each for each in known if str(each["name"]).startswith("agenttalk_session")]
    return found


def asked(site: Served, inside: BrowserContext, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """The answer to exactly this path, which a browser would have tidied up."""
    where = urlsplit(site.http)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=300)
    held = cookie(inside)
    connection.putrequest("GET", path, skip_host="Host" in headers)
    for name, value in {"Cookie": f"{held['name']}={held['value']}", **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read(4 * 2**20)
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def state_of(page: Page, site: Served) -> str:
    page.goto(f"{site.http}/plans/p")
    title: str = page.inner_text("h1")
    return title


ATTEMPTS = """async (engine) => {
  const tried = {};
  const attempt = async (name, work) => { try { tried[name] = await work(); } catch (error) { tried[name] = "refused"; } };
  const text = async (answer) => `${answer.status} ${(await answer.text()).slice(0, 200)}`;
  const told = (target, good) => new Promise((resolve) => { target[good] = () => resolve("came"); target.onerror = () => resolve("refused"); });
  await attempt("read", async () => text(await fetch(engine + "/plans/p", {credentials: "include"})));
  await attempt("api", async () => text(await fetch(engine + "/api/plans", {credentials: "include"})));
  await attempt("blind", async () => (await fetch(engine + "/plans/p", {credentials: "include", mode: "no-cors"})).type);
  await attempt("post", async () => (await fetch(engine + "/plans/p/steer", {credentials: "include", mode: "no-cors", method: "POST",
    body: new URLSearchParams({action: "cancel", why: "x"})})).type);
  await attempt("events", () => { const found = new EventSource(engine + "/api/events", {withCredentials: true});
    return told(found, "onopen").finally(() => found.close()); });
  await attempt("script", () => { const one = document.createElement("script"); one.src = engine + "/plans/p"; document.head.append(one); return told(one, "onload"); });
  await attempt("image", () => { const one = new Image(); one.src = engine + "/static/icon.svg"; return told(one, "onload"); });
  return tried;
}"""


def test_a_page_on_another_port_reads_nothing_and_does_nothing(site: Served, page: Page) -> None:
    with elsewhere(b"<!doctype html><title>evil</title>") as address:
        page.goto(address)
        tried = page.evaluate(ATTEMPTS, site.http)
    assert tried.pop("post") in {"opaque", "refused"}, "whatever came of it cannot be read"
    assert tried == dict.fromkeys(("read", "api", "blind", "events", "script", "image"), "refused")
    assert state_of(page, site).startswith("p")
    assert "Cancel the plan" in page.inner_text("main"), "it was not cancelled"


def test_a_name_that_leads_here_is_not_ours(site: Served, page: Page, inside: BrowserContext) -> None:
    evil = site.http.replace("127.0.0.1", "evil.test")
    held = cookie(inside)
    inside.add_cookies([{"name": held["name"], "value": held["value"], "url": evil}])
    for path in ("/", "/plans/p", "/static/live.js", "/api/events?wait=0", "/api/plans", "/healthz", "/login?key=x"):
        answer = page.goto(f"{evil}{path}")
        assert answer is not None
        assert (answer.status, "HOST_REFUSED" in answer.text()) == (421, True), path
    page.route(f"{evil}/attack", lambda route: route.fulfill(body="<!doctype html>", content_type="text/html"))
    page.goto(f"{evil}/attack")  # its own page, from before the name led here
    tried = page.evaluate(ATTEMPTS, evil)
    assert {tried[name][:4] for name in ("read", "api")} == {"421 "}
    assert tried["events"] == tried["image"] == "refused"
    assert tried["post"] in {"basic", "refused"}
    assert "Cancel the plan" in (state_of(page, site) and page.inner_text("main"))
    for host in ("evil.test", "", "127.0.0.1", "127.0.0.1:1", "localhost.evil.test"):
        assert asked(site, inside, "/plans/p", Host=host)[0] in {400, 421}, host


def test_nobody_else_frames_a_page(site: Served, page: Page) -> None:
    frames = "".join(f'<iframe src="{site.http}{path}"></iframe>' for path in ("/", "/plans/p", "/inbox", "/login"))
    with elsewhere(f"<!doctype html>{frames}<object data='{site.http}/inbox'></object>".encode()) as address:
        page.goto(address)
        page.wait_for_load_state()
        shown = [each.url for each in page.frames[1:]]
        assert len(shown) >= 4
        # What stands in an <object> has no address at all, or that of the error, as soon as it is refused.
        assert set(shown) <= {"chrome-error://chromewebdata/", ""}, shown
        assert shown[:4] == ["chrome-error://chromewebdata/"] * 4


def test_no_path_leads_to_another_file(site: Served, inside: BrowserContext) -> None:
    up = ("../" * 12 + "etc/passwd", "%2e%2e%2f" * 12 + "etc%2fpasswd", "..%5c" * 12 + "etc%5cpasswd", "/etc/passwd",
        "%2fetc%2fpasswd", "%252e%252e%252fetc", "%00", "sha256:" + "0" * 64, "sha256:..%2f..%2fsecret.txt")  # fmt: skip
    for inside_of in ("/plans/p/tasks/made/files/{}", "/plans/p/tasks/made/files/{}/download", "/static/{}",
            "/deadletters/{}/download", "/plans/{}/tasks/made", "/plans/p/tasks/{}", "/plans/{}/parts?task=made"):  # fmt: skip
        for each in up:
            status, _, body = asked(site, inside, inside_of.format(each))
            assert status in {400, 404, 405}, (inside_of, each, status)
            assert b"root:" not in body
            assert SECRET.encode() not in body


def test_links_and_names_that_lead_elsewhere_are_no_outputs(site: Served, page: Page) -> None:
    for name in ("links", *(f"odd{number}" for number in range(len(ODD)))):
        page.goto(f"{site.http}/plans/p/tasks/{name}")
        assert page.query_selector("#outputs a") is None, name
        assert "done" not in page.inner_text("h1"), name
        assert SECRET not in page.content()


def test_files_of_agents_are_text_or_attachments(site: Served, page: Page, inside: BrowserContext) -> None:
    from playwright.sync_api import Error

    page.goto(f"{site.http}/plans/p/tasks/made")
    links = {each.inner_text(): each.get_attribute("href") for each in page.query_selector_all("#outputs a")}
    assert {name.rpartition("/")[2] for name in links} >= set(NAMED)
    for name, link in links.items():
        page.goto(f"{site.http}{link}")
        assert page.inner_text("pre.file") == NAMED[name.rpartition("/")[2]], "it is shown as it is written"
        assert page.query_selector("main svg[onload], #ran, main script, main img") is None
        status, headers, _ = asked(site, inside, f"{link}/download")
        assert status == 200
        form = r"""attachment; filename="[^"\\\r\n]*"; filename\*=UTF-8''[\w.%~-]+"""
        assert re.fullmatch(form, headers["content-disposition"], re.ASCII)
        assert headers["content-type"] == "application/octet-stream"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        with page.expect_download() as kept, pytest.raises(Error):  # nothing is opened
            page.goto(f"{site.http}{link}/download")
        kept.value.delete()
        api = f"/api/plans/p/artifacts/made/{str(link).rpartition('/')[2]}"
        assert asked(site, inside, api)[0] == 401, "a session opens no file of the API"


def test_what_agents_write_is_no_markdown_no_link_and_no_page(site: Served, page: Page) -> None:
    requests: list[str] = []
    page.on("request", lambda each: requests.append(each.url))
    for path in ("/", "/plans/p", "/plans/p/tasks/made", "/plans/p/tasks/fails", "/ledger", "/inbox", "/agents"):
        page.goto(f"{site.http}{path}")
        page.wait_for_selector(".live.on")
        assert page.evaluate("[...document.links].every((each) => each.origin === location.origin)"), path
        assert page.query_selector("iframe, base, meta[http-equiv], main style, main script, main img") is None, path
        assert page.evaluate(
            "[...document.forms].every((each) => new URL(each.getAttribute('action'), location).origin === location.origin)"
        )
    page.goto(f"{site.http}/plans/p/tasks/fails")
    assert "[click](javascript:alert(1))" in page.inner_text("main")
    page.goto(f"{site.http}/plans/p/tasks/made")
    assert "</pre></main><script>alert(2)</script>" in page.evaluate("document.querySelector('main').textContent")
    assert {urlsplit(each).netloc for each in requests} == {urlsplit(site.http).netloc}


def resident() -> int:
    """Bytes that this process, and the engine in it, hold."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory of a process is read from /proc")
def test_a_file_of_a_gibibyte_is_looked_at_and_sent_piece_by_piece(
    site: Served, page: Page, inside: BrowserContext
) -> None:
    page.goto(f"{site.http}/plans/p/tasks/large")
    link = page.get_attribute("#outputs a", "href")
    assert link == f"/plans/p/tasks/large/files/{ZEROS.replace(':', '%3A')}"
    before = resident()
    page.goto(f"{site.http}{link}")
    assert "1.0 GiB" in page.inner_text("main")
    assert "only be downloaded" in page.inner_text("main")
    held = cookie(inside)
    where = urlsplit(site.http)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=300)
    connection.request("GET", f"{link}/download", headers={"Cookie": f"{held['name']}={held['value']}"})
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("content-length")) == (200, str(GIB))
    most = 0
    for _ in range(64):
        assert answer.read(2**20) == bytes(2**20)
        most = max(most, resident())
    answer.close()
    connection.close()
    assert most - before < 200 * 2**20
    assert json.loads(page.evaluate("fetch('/healthz').then((each) => each.text())"))
