"""Runs a model from a file on this machine, in this process."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from agenttalk.adapters.answering.exchange import LineSink, UnansweredError, UsageReporter
from agenttalk.contracts.errors import Code
from agenttalk.contracts.model_use import LocalUse
from agenttalk.rules.agents import model_answers, model_protocol
from agenttalk.rules.agents.model_answers import ModelAnswer
from agenttalk.rules.agents.model_protocol import ModelRequest
from agenttalk.rules.agents.results import TurnFault
from agenttalk.rules.prompts.model_answers import render_retry
from agenttalk.rules.text import answer_words
from agenttalk.rules.text.message import render


def ask(request: ModelRequest, tell: LineSink) -> ModelAnswer:
    """Ask the model, and again with the reason as long as its answer does not have the required form.

    A grammar forces the output into the form, so mostly the content is wrong.
    """
    use = LocalUse.model_validate(dict(request.use))
    server = _loaded(use)
    tell(model_protocol.format_line("model", name=Path(use.model_file).name))
    account = UsageReporter(tell)
    messages = [{"role": "user", "content": request.prompt}]
    form = {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": model_answers.build_schema(request.asked)},
    }
    wanted: dict[str, Any] = {"max_tokens": use.max_tokens, "response_format": form}
    wanted |= {"temperature": use.temperature} if use.temperature is not None else {}
    fault = TurnFault(Code.ANSWER_INVALID, "it was not asked")
    for number in range(use.retries + 1):
        seed = {"seed": use.seed + number} if use.seed is not None else {}
        text, whole = _read_answer(server, {"messages": messages, **wanted, **seed}, account)
        answer = model_answers.read_answer(request.asked, text)
        if isinstance(answer, ModelAnswer):
            return answer
        fault = answer if whole else TurnFault(answer.code, answer_words.CUT_OFF(limit=use.max_tokens))
        messages = [*messages, {"role": "assistant", "content": text}]
        messages.append(
            {"role": "user", "content": render_retry(render(fault.message, request.locale), locale=request.locale)}
        )
    raise UnansweredError(fault.code, fault.message)


def _loaded(use: LocalUse) -> Any:
    """Load the model. Nothing is downloaded."""
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # the library would start a debugger when it fails
    try:
        import xllamacpp
    except ImportError as error:
        why = f"the library for local models cannot be loaded ({error}); pip install 'agenttalk[local]'"
        raise UnansweredError(Code.MODEL_UNUSABLE, why) from error
    if not Path(use.model_file).is_file():
        raise UnansweredError(Code.MODEL_UNUSABLE, f"there is no file {use.model_file!r}; correct model_file")
    threads = use.threads or max(1, (os.cpu_count() or 1) // 2)
    params = xllamacpp.CommonParams()
    params.model.path = use.model_file
    params.n_ctx = use.context
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.verbosity = -1
    params.warmup = False
    params.api_keys = [secrets.token_urlsafe(24)]  # the library also listens on a loopback port, which must stay unused
    try:
        return xllamacpp.Server(params)
    except Exception as error:
        why = f"{use.model_file!r} cannot be loaded: this release cannot read the model, or it needs more memory"
        raise UnansweredError(Code.MODEL_UNUSABLE, f"{why} ({str(error)[:200]})") from error


def _read_answer(server: Any, wanted: dict[str, Any], account: UsageReporter) -> tuple[str, bool]:
    """Return the model's output, and whether the output is complete."""
    try:
        reply = server.handle_chat_completions(wanted)
    except Exception as error:
        raise UnansweredError(
            Code.COMMAND_FAILED, f"the model failed: {type(error).__name__}: {str(error)[:500]}"
        ) from error
    if "error" in reply:
        why = str(reply["error"].get("message"))[:500]
        raise UnansweredError(Code.MODEL_UNUSABLE, f"the model cannot take this request: {why}; see context")
    [choice] = reply["choices"]
    used = reply.get("usage") or {}
    account.read += int(used.get("prompt_tokens") or 0)
    account.written += int(used.get("completion_tokens") or 0)
    account.requests += 1
    text = choice["message"].get("content") or ""
    account.report_answer(text)
    return text, choice.get("finish_reason") != "length"
