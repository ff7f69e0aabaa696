"""Use cases of messages and questions for the doors: answer, replay, send and republish."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agenttalk.contracts.command import Command
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.engine.core import boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.messages import dead_letters, published_files, sent_commands
from agenttalk.engine.messages.dead_letters import DeadLetterContent
from agenttalk.engine.people import questions
from agenttalk.engine.people.questions import AnswerDecision, HumanQuestion
from agenttalk.rules.people.attestation import UNKNOWN, AnswerProof


class MessageService:
    """The actions of doors on messages and questions.

    `nudge` wakes the loops that react to a message, and `turn` is held while files are moved that the router moves.
    """

    def __init__(self, deps: Deps, nudge: Callable[[], None], answered: Callable[[], None], turn: asyncio.Lock) -> None:
        self._deps = deps
        self._nudge = nudge
        self._answered = answered
        self._turn = turn

    async def find_question(self, request_id: str) -> HumanQuestion:
        """Return a question. Raises UsageError when there is none."""
        return (await questions.find_question(self._deps, request_id))[1]

    async def answer(
        self,
        request_id: str,
        *,
        by: str,
        proof: AnswerProof = UNKNOWN,
        decision: AnswerDecision,
        files: Mapping[str, bytes],
        answers: Sequence[Any],
        notes: str | None,
        seen_sha256: str,
        again: bool = False,
    ) -> JsonObject:
        """Answer a question in the name of a person; `proof` shows that a person answers.

        With `again`, the same answer as before is not an error.
        """
        if again:
            given = await self.find_question(request_id)
            if given.has_same_answer(by, decision, files, answers, notes) and given.response is not None:
                return given.response
        answer = await questions.answer(
            self._deps,
            request_id,
            by=by,
            proof=proof,
            decision=decision,
            files=files,
            answers=answers,
            notes=notes,
            seen_sha256=seen_sha256,
        )
        self._nudge()
        self._answered()
        return answer

    async def read_dead_letter(self, deadletter_id: str) -> DeadLetterContent:
        """Return a dead letter with its original in base64."""
        letter, original = await dead_letters.read_dead_letter(self._deps, deadletter_id)
        content = None if original is None else base64.b64encode(original).decode()
        return {**letter, "content": content}

    async def replay(self, deadletter_id: str, *, by: str) -> dead_letters.ReplayedDeadLetter:
        """Replay a dead letter."""
        async with self._turn:
            outcome = await dead_letters.replay(self._deps, deadletter_id, by=by)
        self._nudge()
        return outcome

    async def send(self, command: Command, key: str | None) -> sent_commands.SentCommandReceipt:
        """Send a command in the operator's name."""
        async with self._turn:
            sent = await sent_commands.send_command(self._deps, command, key=key)
        self._nudge()
        return sent

    async def republish(self) -> int:
        """Write every published file again. Returns how many."""
        async with self._turn:
            return sum(
                [await published_files.republish(self._deps, board) for board in await boards.list_boards(self._deps)]
            )
