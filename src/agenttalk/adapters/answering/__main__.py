"""Reads a request, asks a model, and writes the answer."""

from __future__ import annotations

import os
import sys

from agenttalk.adapters.answering import exchange
from agenttalk.adapters.answering.exchange import LineSink, UnansweredError
from agenttalk.contracts.errors import Code
from agenttalk.rules.agents import model_protocol
from agenttalk.rules.agents.model_answers import ModelAnswer
from agenttalk.rules.agents.model_protocol import ModelRequest


def main() -> int:
    """Return the exit code: 0 for an answer, 1 without one."""
    out = sys.stdout.buffer

    def tell(line: bytes) -> None:
        out.write(line)
        out.flush()

    request = ModelRequest.read(sys.stdin.buffer.read())
    try:
        exchange.write_answer(_answered(request, tell))
    except UnansweredError as error:
        why = error.why.encode("utf-8", "replace").decode()
        limit = {"limit": error.limit, "retry_after": error.retry_after} if error.limit else {}
        tell(model_protocol.format_line("fault", code=error.code, text=why, **limit))
        return 1
    tell(model_protocol.format_line("end"))
    return 0


def _answered(request: ModelRequest, tell: LineSink) -> ModelAnswer:
    if request.driver == "local":
        from agenttalk.adapters.answering import local

        return local.ask(request, tell)
    import asyncio

    try:
        from agenttalk.adapters.answering import service

        return asyncio.run(service.ask(request, tell, os.environ.pop(model_protocol.KEY, "")))
    except ImportError as error:
        why = f"the library that asks models cannot be loaded ({error}); pip install 'agenttalk[llm]'"
        raise UnansweredError(Code.MODEL_UNUSABLE, why) from error


if __name__ == "__main__":
    sys.exit(main())
