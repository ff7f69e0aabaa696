"""The port `Blobs`, over both databases."""

from __future__ import annotations

import io

import pytest

from agenttalk.adapters.store import blobs
from agenttalk.adapters.store.root import RootStores
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.ports.statements.core import PUT_BLOB
from kits.storekit import Place

SMALL = b"x" * blobs.SMALL
LARGE = bytes(range(256)) * 8192


@pytest.mark.parametrize("content", [b"", b"small", SMALL, SMALL + b"x", LARGE], ids=len)
def test_a_content_is_found_by_its_hash(place: Place, content: bytes) -> None:
    async def scenario(stores: RootStores) -> None:
        kept = await stores.blobs("shop")
        digest = await kept.put(content)
        assert digest == wire.sha256(content) == await kept.put(io.BytesIO(content))
        assert await kept.exists(digest)
        assert await kept.get(digest) == content

    place.play(scenario)


@pytest.mark.parametrize("content", [b"", b"small", SMALL + b"x", LARGE], ids=len)
def test_a_content_can_be_read_piece_by_piece(place: Place, content: bytes) -> None:
    async def scenario(stores: RootStores) -> None:
        kept = await stores.blobs("shop")
        digest = await kept.put(content)
        assert await kept.size(digest) == len(content)
        step = max(1, len(content) // 3)
        pieces = [await kept.read_piece(digest, first, step) for first in range(0, len(content), step)]
        assert b"".join(pieces) == content
        assert await kept.read_piece(digest, len(content), 10) == b""
        for ask in (kept.size(wire.sha256(b"?")), kept.read_piece(wire.sha256(b"?"), 0, 1)):
            with pytest.raises(UsageError) as caught:
                await ask
            assert caught.value.code is Code.BLOB_MISSING

    place.play(scenario)


def test_only_large_contents_are_files_and_nothing_is_left_beside_them(sqlite: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        kept = await stores.blobs("shop")
        await kept.put(SMALL)
        digest = await kept.put(LARGE)
        folder = sqlite.root / "data" / "blobs"
        assert [path for path in folder.rglob("*") if path.is_file()] == [folder / digest[7:9] / digest[9:]]

    sqlite.play(scenario)


def test_a_small_content_can_be_stored_in_the_commit_that_refers_to_it(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        digest = await board.transact(lambda tx: blobs.put_small(tx, b"evidence"))
        assert await (await stores.blobs("shop")).get(digest) == b"evidence"

    place.play(scenario)


def test_a_damaged_content_is_refused_and_putting_it_in_again_repairs_it(sqlite: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        kept = await stores.blobs("shop")
        digest = await kept.put(LARGE)
        blobs.blob_path(sqlite.root / "data" / "blobs", digest).write_bytes(LARGE[:-1] + b"?")
        with pytest.raises(MachineError) as caught:
            await kept.get(digest)
        assert caught.value.code is Code.STORE_DAMAGED
        await kept.put(LARGE)
        assert await kept.get(digest) == LARGE

    sqlite.play(scenario)


def test_a_damaged_row_is_refused(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        board = await stores.board("shop")
        digest = wire.sha256(b"right")
        await board.transact(lambda tx: tx.run(PUT_BLOB, hash=digest, content=b"wrong"))
        kept = await stores.blobs("shop")
        with pytest.raises(MachineError) as caught:
            await kept.get(digest)
        assert caught.value.code is Code.STORE_DAMAGED
        await kept.put(b"right")
        assert await kept.get(digest) == b"right"

    place.play(scenario)


def test_what_is_not_there_is_named(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        kept = await stores.blobs("shop")
        digest = wire.sha256(b"never put")
        assert not await kept.exists(digest)
        for asked, code in ((digest, Code.BLOB_MISSING), ("sha256:../../x", Code.HASH_INVALID)):
            with pytest.raises(UsageError) as caught:
                await kept.get(asked)
            assert caught.value.code is code

    place.play(scenario)
