"""A thread that answers what asyncio asks: takes everything that waits at once, and answers it at once."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from agenttalk.contracts.errors import Code, MachineError

Ask = TypeVar("Ask")


class WorkItem(Generic[Ask]):
    """One thing asked for, and its answer."""

    __slots__ = ("ask", "board", "error", "future", "value")

    def __init__(self, board: str, ask: Ask, future: asyncio.Future[Any] | None) -> None:
        self.board = board
        self.ask = ask
        self.future = future
        self.value: Any = None
        self.error: BaseException | None = None


class BatchWorker(ABC, Generic[Ask]):
    """Subclasses say what `answer` does with a batch, when they are `due` without being asked, and how they `end`."""

    def __init__(self, name: str) -> None:
        self._queue: SimpleQueue[WorkItem[Ask] | None] = SimpleQueue()
        self._open = True
        self._gate = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def ask(self, board: str, ask: Ask) -> asyncio.Future[Any]:
        """Hand something over from an event loop; the future is the answer."""
        future = asyncio.get_running_loop().create_future()
        self.answer_to(future, board, ask)
        return future

    def answer_to(self, future: asyncio.Future[Any], board: str, ask: Ask) -> None:
        """Hand something over whose answer goes to a future."""
        self._put(WorkItem(board, ask, future))

    def post(self, board: str, ask: Ask) -> None:
        """Hand something over from any thread, without waiting for the answer."""
        self._put(WorkItem(board, ask, None))

    def stop(self) -> None:
        """Answer what was handed over, take nothing more, end. Blocks; may be called twice."""
        # The same lock as in `_put`: nothing gets behind the mark that ends the thread, where no answer would ever
        # come.
        with self._gate:
            if self._open:
                self._open = False
                self._queue.put(None)
        self._thread.join()

    @abstractmethod
    def answer(self, jobs: list[WorkItem[Ask]]) -> None:
        """Fill in `value` or `error` of each job; must not raise."""

    @abstractmethod
    def end(self) -> None:
        """Give back what the thread holds."""

    def due(self) -> float | None:
        """Return the seconds until `upkeep` is due; None if it is not."""
        return None

    def upkeep(self) -> None:
        """Do periodic work. Must not raise."""

    def _put(self, job: WorkItem[Ask]) -> None:
        with self._gate:
            if not self._open:
                raise MachineError(Code.STORE_UNAVAILABLE, "the store is closed", hint="open it again")
            self._queue.put(job)

    def _run(self) -> None:
        going = True
        while going:
            jobs, going = self._waiting()
            if jobs:
                self.answer(jobs)
                settle(jobs)
            wait = self.due()
            if wait is not None and (wait <= 0 or not going):
                self.upkeep()
        self.end()

    def _waiting(self) -> tuple[list[WorkItem[Ask]], bool]:
        """Return all waiting jobs; blocks until there are some or upkeep is due. False means that the worker stops."""
        jobs: list[WorkItem[Ask]] = []
        try:
            wait = self.due()
            job = self._queue.get(timeout=None if wait is None else max(wait, 0))
            while job is not None:
                jobs.append(job)
                job = self._queue.get_nowait()
        except Empty:
            return jobs, True
        return jobs, False


def settle(jobs: list[WorkItem[Any]]) -> None:
    """Answer all jobs, waking each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[WorkItem[Any]]] = {}
    for job in jobs:
        if job.future is not None:
            loops.setdefault(job.future.get_loop(), []).append(job)
    for loop, asked in loops.items():
        call_in(loop, _resolve, asked)


def call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: object) -> None:
    """Call something in a loop, unless the loop is closed."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _resolve(jobs: list[WorkItem[Any]]) -> None:
    for job in jobs:
        future = job.future
        if future is None or future.done():  # the waiter was cancelled; the work was done anyway
            continue
        if job.error is None:
            future.set_result(job.value)
        elif isinstance(job.error, StopIteration):  # a future cannot hold it
            future.set_exception(RuntimeError(f"a work raised {job.error!r}"))
        else:
            future.set_exception(job.error)
