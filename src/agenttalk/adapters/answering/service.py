"""Asks a model of a service, through pydantic-ai."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx2
from pydantic_ai import Agent, ModelRetry, StructuredDict, ToolOutput, UsageLimits, exceptions
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import RetryModelRequest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from agenttalk.adapters.answering.exchange import LineSink, UnansweredError, UsageReporter
from agenttalk.contracts.errors import Code
from agenttalk.contracts.model_use import LlmUse
from agenttalk.rules.agents import model_answers, model_protocol, model_services
from agenttalk.rules.agents.model_answers import ModelAnswer
from agenttalk.rules.agents.model_protocol import ModelRequest
from agenttalk.rules.agents.results import TurnFault
from agenttalk.rules.budgets.provider_limits import LimitKind
from agenttalk.rules.prompts.model_answers import render_retry
from agenttalk.rules.text.message import render

_BUSY = (
    exceptions.ModelRateLimitError,
    exceptions.ModelUnavailableError,
    exceptions.ModelServerError,
    exceptions.ModelConnectionError,
    exceptions.ModelRequestTimeout,
)
"""Statuses that may pass soon."""
_CONNECT = 10.0
"""Seconds to connect to a service."""
_SHOWN = 500


async def ask(request: ModelRequest, tell: LineSink, key: str) -> ModelAnswer:
    """Ask the model, and again with the reason as long as its answer does not have the required form."""
    use = LlmUse.model_validate(dict(request.use))
    ends = time.monotonic() + request.seconds
    timeout = httpx2.Timeout(request.seconds, connect=min(_CONNECT, request.seconds))
    async with httpx2.AsyncClient(timeout=timeout, follow_redirects=False) as client:
        tell(model_protocol.format_line("model", name=use.model))
        return await _Conversation(use, request, tell, ends).hold(_model(use, key, client))


def _model(use: LlmUse, key: str, client: httpx2.AsyncClient) -> Model[Any]:
    """Build the model with the interface of its service."""
    if use.provider == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        anthropic = AnthropicProvider(api_key=key or "none", base_url=use.base_url, http_client=client)
        return AnthropicModel(use.model, provider=anthropic)
    if use.provider == "google":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        google = GoogleProvider(api_key=key or "none", base_url=use.base_url, http_client=client)
        return GoogleModel(use.model, provider=google)
    from pydantic_ai.models.openai import OpenAIChatModel

    if use.provider == "ollama":
        from pydantic_ai.providers.ollama import OllamaProvider

        url = use.base_url or model_services.OLLAMA
        return OpenAIChatModel(use.model, provider=OllamaProvider(url, key or None, http_client=client))
    from pydantic_ai.providers.openai import OpenAIProvider

    openai = OpenAIProvider(use.base_url, key or "none", http_client=client)
    return OpenAIChatModel(use.model, provider=openai)


class _Conversation:
    """One conversation with a model, until it has answered."""

    def __init__(self, use: LlmUse, request: ModelRequest, tell: LineSink, ends: float) -> None:
        self._use = use
        self._request = request
        self._tell = tell
        self._ends = ends
        self._account = UsageReporter(tell)
        self._said = len(request.prompt)
        """Characters of the conversation so far."""
        self._fault = TurnFault(Code.ANSWER_INVALID, "it did not answer")
        """What is wrong with the last answer."""
        self._answer: ModelAnswer | None = None

    async def hold(self, model: Model[Any]) -> ModelAnswer:
        """Ask until there is an answer. Raises UnansweredError with what is wrong."""
        try:
            await self._held(self._agent(model))
        except exceptions.ContentFilterError as error:
            raise UnansweredError(Code.MODEL_REFUSED, f"the model refused to answer: {str(error)[:_SHOWN]}") from error
        except (exceptions.UnexpectedModelBehavior, exceptions.UsageLimitExceeded) as error:
            if not self._account.requests:
                raise UnansweredError(Code.MODEL_UNAVAILABLE, _unreadable(error)) from error
        except exceptions.ModelAPIError as error:
            raise _refused(error) from error
        except exceptions.UserError as error:
            raise UnansweredError(Code.MODEL_UNUSABLE, str(error)[:_SHOWN]) from error
        if self._answer is None:
            raise UnansweredError(self._fault.code, self._fault.message)
        return self._answer

    def _agent(self, model: Model[Any]) -> Agent[object, Any]:
        use = self._use
        settings = ModelSettings(max_retries=0)  # retries happen here, where the remaining time is known
        if use.temperature is not None:
            settings["temperature"] = use.temperature
        if use.max_tokens is not None:
            settings["max_tokens"] = use.max_tokens
        form = StructuredDict(model_answers.build_schema(self._request.asked), name="answer")
        agent: Agent[object, Any] = Agent(
            model,
            output_type=ToolOutput(form, name="answer", description="Your one answer, which ends this conversation"),
            retries={"output": use.retries, "tools": use.retries},
            model_settings=settings,
            capabilities=[_ServiceRetries(use.retries, self._ends, self._tell)],
        )
        agent.output_validator(self._judge)
        return agent

    async def _held(self, agent: Agent[object, Any]) -> None:
        limits = UsageLimits(request_limit=self._use.retries + 1)
        async with agent.iter(self._request.prompt, usage_limits=limits) as conversation:
            async for node in conversation:
                if Agent.is_call_tools_node(node):
                    self._hear(node.model_response, conversation.usage.cost)

    def _judge(self, said: Any) -> Any:
        """Accept an answer, or return it with the reason."""
        answer = model_answers.check_answer(self._request.asked, said)
        if isinstance(answer, TurnFault):
            self._fault = answer
            raise ModelRetry(render_retry(render(answer.message, self._request.locale), locale=self._request.locale))
        self._answer = answer
        return said

    def _hear(self, response: ModelResponse, cost: Any) -> None:
        """Count and report an answer. Its form counts as wrong until a check finds something else."""
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        text = "\n".join(
            [call.args_as_json_str() for call in calls]
            or [part.content for part in response.parts if isinstance(part, TextPart)]
        )
        account, used = self._account, response.usage
        account.requests += 1
        if used.input_tokens or used.output_tokens:
            account.read += used.input_tokens
            account.written += used.output_tokens
        else:
            account.estimated = True
            account.read += model_services.estimate_tokens(self._said)
            account.written += model_services.estimate_tokens(len(text))
        self._said += len(text)
        if self._use.prices is not None:
            account.cost_usd = model_services.compute_price(self._use.prices, account.read, account.written)
        elif cost is not None:
            account.cost_usd = float(cost)
        account.report_answer(text)
        self._fault = _first_fault(response, text, called=bool(calls))


def _first_fault(response: ModelResponse, text: str, *, called: bool) -> TurnFault:
    if response.finish_reason == "content_filter":
        why = (response.provider_details or {}).get("refusal") or text or "it does not say why"
        raise UnansweredError(Code.MODEL_REFUSED, f"the model refused to answer: {str(why)[:_SHOWN]}")
    if response.finish_reason == "length":
        return TurnFault(Code.ANSWER_INVALID, "the answer was cut off at the token limit")
    if not text.strip():
        return TurnFault(Code.AGENT_SILENT, "the answer is empty")
    what = "holds no object" if called else "is a text, not in the required form"
    return TurnFault(Code.ANSWER_INVALID, f"the answer {what}: {' '.join(text.split())[:_SHOWN]!r}")


class _ServiceRetries(AbstractCapability[Any]):  # type: ignore[misc]  # its types are not looked into
    """Retries requests to a service that is busy or out of order."""

    def __init__(self, retries: int, ends: float, tell: LineSink) -> None:
        self._retries = retries
        self._ends = ends
        self._tell = tell
        self._failed = 0

    async def on_model_request_error(self, ctx: Any, *, request_context: Any, error: Exception) -> ModelResponse:  # noqa: ARG002 - so it is called
        """Wait as long as the service demands and retry, or raise the error again."""
        if not isinstance(error, _BUSY):
            raise error
        self._failed += 1
        left = self._ends - time.monotonic()
        wait = model_services.compute_pause(self._failed, retries=self._retries, asked=error.retry_after, left=left)
        if wait is None:
            raise error
        self._tell(model_protocol.format_line("waiting", text=f"{_why(error)}; the next try is in {wait:g} s"))
        await asyncio.sleep(wait)
        raise RetryModelRequest


def _refused(error: exceptions.ModelAPIError) -> UnansweredError:
    """Translate the error of a service that gave no answer."""
    if isinstance(error, (*_BUSY, exceptions.ModelQuotaExceededError)):
        asked = f"; it allows the next try in {error.retry_after:g} s" if error.retry_after else ""
        return UnansweredError(Code.MODEL_UNAVAILABLE, f"{_why(error)}{asked}", _limit(error), error.retry_after)
    if isinstance(error, exceptions.ModelRequestRejectedError):
        return UnansweredError(Code.MODEL_UNUSABLE, f"the service refuses the request: {_why(error)}")
    return UnansweredError(Code.MODEL_UNAVAILABLE, _why(error))


def _limit(error: exceptions.ModelAPIError) -> LimitKind | None:
    """Return the limit of the service that an error shows. A service that cannot be reached has reported none."""
    if isinstance(error, exceptions.ModelQuotaExceededError):
        return "usage"
    return None if isinstance(error, exceptions.ModelConnectionError | exceptions.ModelRequestTimeout) else "overload"


def _why(error: exceptions.ModelAPIError) -> str:
    status = getattr(error, "status_code", None)
    reason = str(error) if status is None else f"status {status}, {error.body or error.message}"
    return f"the service does not answer ({reason[:_SHOWN]})"


def _unreadable(error: Exception) -> str:
    return f"the service's answer cannot be read: {str(error)[:_SHOWN]}"
