"""Writes facts from several tasks and prints each one that was acknowledged; kills itself in the midst of it.

`python acknowledging_child.py ROOT URL ROUND ACKNOWLEDGEMENTS`
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from agenttalk.adapters.store.root import RootStores
from agenttalk.ports.storage import Store
from kits.storekit import Clock, fact


async def main(root: str, url: str, turn: str, wanted: int) -> None:
    stores = RootStores(Path(root), Clock(), url=url)
    board = await stores.board("shop")
    left = wanted

    async def write(store: Store, writer: int) -> None:
        nonlocal left
        for number in range(10_000):
            subject = f"{turn}/{writer}/{number}"
            await store.transact(fact(subject))
            os.write(1, f"{subject}\n".encode())
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    await asyncio.gather(*(write(board, writer) for writer in range(8)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
