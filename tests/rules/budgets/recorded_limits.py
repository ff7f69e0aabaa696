"""What coding agents print when a limit of their provider ends a run: recorded, or from their code.

The runs were recorded with a service on the loopback that answers as the provider does. Fields that we do not read are
left out.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

NOW = datetime(2026, 11, 19, 14, 20, tzinfo=UTC)


def _lines(*said: dict[str, Any]) -> list[bytes]:
    return [json.dumps(each).encode() for each in said]


_INIT = {"type": "system", "subtype": "init", "session_id": "fdccb5e5"}
_OVER = {"type": "result", "subtype": "success", "is_error": True, "terminal_reason": "api_error"}
_RESETS = datetime.fromtimestamp(1795108848, UTC)
RUNS: Final = [
    (  # Claude Code 2.1.325: HTTP 429, anthropic-ratelimit-unified-status: rejected
        "claude",
        _lines(
            _INIT,
            {
                "type": "rate_limit_event",
                "rate_limit_info": {"status": "rejected", "resetsAt": 1795108848, "rateLimitType": "five_hour"},
            },
            {
                **_OVER,
                "api_error_status": 429,
                "api_error_type": "rate_limit_error",
                "api_error": "usage_limit_reached",
                "result": "You've hit your limit · resets 6:20pm (Europe/Berlin)",
            },
        ),
        "usage",
        _RESETS,
    ),
    (  # Claude Code 2.1.325: HTTP 529
        "claude",
        _lines(
            _INIT,
            {"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": 529, "error": "overloaded"},
            {
                **_OVER,
                "api_error_status": 529,
                "api_error_type": "overloaded_error",
                "result": "API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a "
                "moment. If it persists, check your inference gateway (127.0.0.1:53409).",
            },
        ),
        "overload",
        None,
    ),
    (  # Codex 0.166.0: HTTP 429, usage_limit_reached, plan_type plus
        "codex",
        _lines(
            {"type": "thread.started", "thread_id": "01a1f42d"},
            {"type": "turn.started"},
            {
                "type": "turn.failed",
                "error": {
                    "message": "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit "
                    "https://chatgpt.com/settings/usage to purchase more credits or try again at 6:19 PM."
                },
            },
        ),
        "usage",
        datetime(2026, 11, 19, 17, 20, tzinfo=UTC),
    ),
    (  # Gemini CLI 0.61.0: HTTP 429, quotaId GenerateRequestsPerDayPerProjectPerModel
        "gemini",
        _lines(
            {"type": "init", "session_id": "fd166b6a", "model": "gemini-2.5-pro"},
            {
                "type": "result",
                "status": "error",
                "error": {
                    "type": "unknown",
                    "message": "[API Error: You have exhausted your daily quota on this model.]\nPlease wait and try "
                    "again later. To increase your limits, request a quota increase through AI Studio, or switch to "
                    "another /auth method",
                },
                "stats": {"total_tokens": 0},
            },
        ),
        "usage",
        None,
    ),
    (  # OpenCode 1.18.33: HTTP 503, after its own attempts
        "opencode",
        _lines(
            {
                "type": "error",
                "sessionID": "ses_e0bc93951ffeElo1yOAuutxmq2",
                "error": {
                    "name": "APIError",
                    "data": {"message": "The server is overloaded", "statusCode": 503, "isRetryable": True},
                },
            }
        ),
        "overload",
        None,
    ),
    (  # OpenCode 1.18.33: HTTP 400, insufficient_quota
        "opencode",
        _lines(
            {
                "type": "error",
                "sessionID": "ses_e0bc982edffehjPU6e5xj4wW7F",
                "error": {
                    "name": "APIError",
                    "data": {
                        "message": "You exceeded your current quota, please check your plan and billing details.",
                        "statusCode": 400,
                    },
                },
            }
        ),
        "usage",
        None,
    ),
]
MESSAGES: Final = [
    ("claude", "You've hit your limit · resets Nov 24, 3:31pm (Europe/Berlin)", "usage", datetime(2026, 11, 24, 14, 32, tzinfo=UTC)),
    ("claude", "You've hit your session limit · resets 6pm (Europe/Berlin)", "usage", datetime(2026, 11, 19, 17, 1, tzinfo=UTC)),
    ("claude", "Claude AI usage limit reached|1795108848", "usage", _RESETS),
    ("claude", "5-hour limit reached ∙ resets 6pm", "usage", datetime(2026, 11, 19, 17, 1, tzinfo=UTC)),
    ("claude", "Credit balance is too low", "usage", None),
    ("claude", "Internal error: Credit balance is too low (session/prompt)", "usage", None),
    ("claude", "API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later.", "overload", None),
    ("claude", "API Error: 500 Internal server error. This is a server-side issue, usually temporary", "overload", None),
    ("codex", "You’ve hit your usage limit. Visit https://chatgpt.com/settings/usage to purchase more credits or try again at Nov 24th, 2026 6:19 PM.", "usage", datetime(2026, 11, 24, 17, 20, tzinfo=UTC)),
    ("codex", "Quota exceeded. Check your plan and billing details.", "usage", None),
    ("codex", "exceeded retry limit, last status: 429 Too Many Requests", "overload", None),
    ("codex", "Selected model is at capacity. Please try a different model.", "overload", None),
    ("gemini", "[API Error: You exceeded your current quota. Please retry in 21.4s.\nSuggested retry after 21s.]", "overload", NOW + timedelta(seconds=21.4)),
    ("gemini", '[API Error: {"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]', "overload", None),
    ("qwen", "[API Error: Qwen OAuth quota exceeded: Your free daily quota has been reached.]", "usage", None),
    ("qwen", "[API Error: 503 The server is overloaded]", "overload", None),
    ("opencode", "Provider is overloaded", "overload", None),
    ("opencode", "Usage limit reached. It will reset in 2 hours 3 minutes.", "usage", NOW + timedelta(hours=2, minutes=3)),
]  # fmt: skip
"""Messages in which a program reports its failure."""
OTHERS: Final = [
    "",
    "API Error: 400 no credit left",
    "unexpected status 400 Bad Request: no credit left",
    "The tests say: You've hit your usage limit",
    "I stopped at a rate limit of the tool",
    "the task is about 429 errors",
    "stream disconnected before completion",
    "Invalid API key · Please run /login",
]
"""Failures that are no limits, and the words of others about limits."""
