"""The page on which past work is held against a policy."""

from __future__ import annotations

from pathlib import Path

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.ports.statements.core import NEWEST_FACT
from doors.pages.pagekit import HOSTILE, Guest, text, visit
from kits.plankit import plan, states, task
from kits.provekit import promise

MADE = [{"name": "page.md", "deliverable": True}]
CHECK = {"id": "long", "kind": "file", "path": "page.md", "min_bytes": 1}
STRICT = "min_trust: executed\nrefuse: [claimed]\n"


async def work(turn: Turn) -> str:
    for each in turn.command.produces or ():
        turn.outputs[each.output_name] = "a page"
    return "ok"


async def worked(ada: Guest) -> None:
    compiled = plan(task("proven", outputs=MADE, promise=promise(CHECK)), task("plain", "b"))
    await ada.engine.submit(compiled)
    assert set(states(await ada.engine.ended()).values()) == {"COMPLETED"}


async def facts(ada: Guest) -> int:
    store = await ada.engine.deps.stores.board("default")
    return int((await store.read(NEWEST_FACT))[0][0])


def test_it_tells_what_a_policy_would_have_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await worked(ada)
        assert 'href="/ledger/replay"' in await ada.page("/ledger")
        assert 'href="/ledger/replay?plan=p"' in await ada.page("/ledger?plan=p")
        assert 'name="policy"' in await ada.page("/ledger/replay?plan=p")
        before = await facts(ada)
        found = await ada.post("/ledger/replay", policy=STRICT)
        assert found.status_code == 200
        assert "0 kept, 2 would be refused, 0 unknown" in text(found)
        assert 'href="/plans/p/tasks/proven"' in found.text
        assert "executed" in text(found)
        assert STRICT.strip() in found.text, "it stays in the form"
        kept = await ada.post("/ledger/replay", policy='{"max_rounds": 3}', plan="p", since="2026-01-01")
        assert "2 kept, 0 would be refused" in text(kept)
        assert "Everything here would still be done." in text(kept)
        other = await ada.post("/ledger/replay", policy=STRICT, plan="another")
        assert "Nothing was called done here." in text(other)
        assert await facts(ada) == before
        assert states(await ada.engine.ended()) == {"proven": "COMPLETED", "plain": "COMPLETED"}

    visit(tmp_path, use, proving=True, a=work, b=work)


def test_a_policy_can_be_a_file_and_more_than_a_page_is_asked_for_again(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await worked(ada)
        sent = {"form_key": await ada.key(), "policy": "nonsense"}
        files = {"file": ("policy.yaml", STRICT.encode(), "text/yaml")}
        found = await ada.client.post("/ledger/replay", data=sent, files=files)
        assert "2 would be refused" in text(found)
        rest = await ada.post("/ledger/replay", policy=STRICT, board="default", before="2")
        assert "0 would be refused" in text(rest), "further back there is nothing"

    visit(tmp_path, use, proving=True, a=work, b=work)


def test_what_is_wrong_with_a_policy_is_told_beside_it(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        for policy, told in (
            ("min_trsut: executed", "min_trust"),
            ("{}", "this policy requires nothing"),
            ("", "object"),
            ("{", "not"),
            (f"min_trust: '{HOSTILE}'", "min_trust"),
            ("x" * 70_000, "at most 65,536 bytes"),
        ):
            found = await ada.post("/ledger/replay", policy=policy)
            assert (found.status_code, "This cannot be judged" in found.text) == (400, True), policy[:40]
            assert told in text(found)
            assert "<script>alert(1)" not in found.text
        late = await ada.post("/ledger/replay", policy=STRICT, since="soon")
        assert (late.status_code, "is not a time" in text(late)) == (400, True)
        strange = await ada.post("/ledger/replay", policy=STRICT, board="nowhere", before="much")
        assert strange.status_code == 400

    visit(tmp_path, use)


def test_only_operators_may_ask_as_at_the_api(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        viewer = await ada.again()
        async with viewer.client:
            assert (await viewer.get("/ledger/replay")).status_code == 401
            await viewer.enter("viewer", "vera")
            assert "/ledger/replay" not in await viewer.page("/ledger")
            page = await viewer.page("/ledger/replay")
            assert "Only operators may ask this." in page
            assert 'name="policy"' not in page
            assert (await viewer.post("/ledger/replay", policy=STRICT)).status_code == 403
        without = await ada.client.post("/ledger/replay", data={"policy": STRICT})
        assert without.status_code in {400, 403}, "only from a page of one's own session"

    visit(tmp_path, use)
