"""Pages of the reference that are written from the code are up to date.

AGENTTALK_UPDATE_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from agenttalk.contracts.agent import AcpUse, CliUse
from agenttalk.contracts.core import catalogue
from agenttalk.contracts.core.base import Part
from agenttalk.contracts.core.field_docs import read_field_docs
from agenttalk.contracts.errors import MEANINGS, Code
from agenttalk.contracts.model_use import LlmUse, LocalUse, Prices
from agenttalk.contracts.planfile import model
from agenttalk.doors.api import openapi
from agenttalk.doors.api.problems import STATUS
from agenttalk.doors.api.route_table import ROUTES
from agenttalk.rules.agents import acp_table
from agenttalk.rules.agents.cli_table import TABLE, CodingAgent
from agenttalk.rules.core import task_states
from agenttalk.rules.planfile.plan_checks import DRIVERS
from agenttalk.rules.text.code_words import CODES
from agenttalk.wiring.settings.tables import (
    AccountSettings,
    AgentSettings,
    KeepSettings,
    NotifySettings,
    RiskSettings,
    ScheduleSettings,
    Settings,
    SettingsTable,
    SourceSettings,
)
from project.remedies import REMEDIES

REFERENCE = Path(__file__).parents[2] / "docs/reference"


def errors_page() -> str:
    rows = [
        f"| `{code}` | {MEANINGS[code].text} | {REMEDIES[code]} | {'yes' if MEANINGS[code].retriable else 'no'} | "
        f"{STATUS.get(code, '')} |"
        for code in Code
    ]
    return "\n".join(
        [
            "# Codes of errors and problems",
            "",
            "Match on the code in programs; the wording may change. Each error also has a specific hint. Over HTTP, a",
            "code without a status in this table is answered with 422 for bad input (400 if it is not JSON), with 503 where a retry",
            "can help, and otherwise with 500. This page is generated from the code.",
            "",
            "| code | what it means | what to do | can a retry help | HTTP |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def documents_page() -> str:
    rows = [f"| [`{name}`](#{name}) | {catalogue.summary(name)} |" for name in catalogue.DOCUMENTS]
    schemas = {name: catalogue.schema(name) for name in catalogue.DOCUMENTS}
    parts = {part: said for schema in schemas.values() for part, said in schema.get("$defs", {}).items()}
    lines = [
        "# Documents",
        "",
        "Every document that AgentTalk reads or writes, and every field of it. `agenttalk schema NAME` shows its JSON Schema",
        "(draft 2020-12); `agenttalk schema --out DIR` writes all of them. This page is generated from the code.",
        "",
        "| name | what it is |",
        "|---|---|",
        *rows,
    ]
    for name, schema in schemas.items():
        lines += ["", f"## {name}", "", catalogue.summary(name), "", *_fields(schema)]
    lines += ["", "# Parts of documents"]
    for part, schema in sorted(parts.items()):
        lines += ["", f"## {part}", "", " ".join(schema.get("description", "").split()), "", *_fields(schema)]
    return "\n".join([*lines, ""])


def _fields(schema: Mapping[str, Any]) -> list[str]:
    """A table of what an object may hold."""
    if not schema.get("properties"):
        return [f"It is {_form(schema)}."]
    needed = set(schema.get("required", ()))
    rows = [
        f"| `{name}` | {_form(said)} | {_told_default(said, needed=name in needed)} | {_line(said.get('description', ''))} |"
        for name, said in schema["properties"].items()
    ]
    return ["| field | form | default | meaning |", "|---|---|---|---|", *rows]


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _told_default(said: Mapping[str, Any], *, needed: bool) -> str:
    if needed:
        return "needed"
    return f"`{json.dumps(said['default'], ensure_ascii=False)}`" if said.get("default") is not None else ""


def _form(said: Mapping[str, Any]) -> str:
    """What a value looks like, in a word or two."""
    if "$ref" in said:
        part = said["$ref"].rpartition("/")[2]
        return f"[{part}](#{part.lower()})"
    if choices := said.get("anyOf") or said.get("oneOf") or said.get("allOf"):
        return " or ".join(dict.fromkeys(_form(each) for each in choices if each.get("type") != "null"))
    if "const" in said:
        return f"`{json.dumps(said['const'])}`"
    if "enum" in said:
        return " or ".join(f"`{json.dumps(each)}`" for each in said["enum"])
    kind = said.get("type", "any value")
    if kind == "array":
        return f"list of {_form(said.get('items', {}))}"
    return {"string": "text", "integer": "whole number", "boolean": "true or false"}.get(kind, str(kind))


def coding_agents_page() -> str:
    parts = [
        "# Coding agents",
        "",
        "How the driver `cli` starts each coding agent ([how to use them](../howto/use-coding-agents.md)). An agent's `cli` is one",
        "of these names, or an object with `agent` and the keys that differ from this page. The page is generated from the code.",
        "",
        "| key of `cli` | meaning |",
        "|---|---|",
        *(f"| `{name}` | {_told(CliUse, name)} |" for name in CliUse.model_fields),
        "",
        "Arguments may hold placeholders. `{base}` is the folder of the attempt, `{session}` the session to be resumed, `{model}`,",
        "`{prompt}` and `{prompt_file}` are what their names say, and `{mcp_file}` is a file that describes AgentTalk's MCP server.",
        "Five placeholders stand alone and become any number of arguments: `{MODEL}` chooses the model, `{GUARD}` sets how much",
        "the agent may do without asking, `{MCP}` hands over the MCP server, `{HOOK}` has the agent asked before it stops, and",
        "`{ARGS}` is `args`.",
    ]
    for name, entry in TABLE.items():
        trust = {"in a sandbox": entry.confined, "without one": entry.trusted}
        rows = {
            "arguments": _code(entry.argv),
            "to resume a session": _code(entry.resume) or "not possible",
            "prompt by": entry.prompt,
            "output read as": f"`{entry.codec}`",
            **{f"`{{GUARD}}` {where}": _code(argv) for where, argv in trust.items()},
            "MCP server by": _told_of_server(entry),
            "variables": _code([f"{key}={value}" for key, value in {**entry.variables, **entry.when_confined}.items()]),
            "handed over if set": ", ".join(f"`{each}`" for each in entry.handed),
            "not permitted": ", ".join(_code([each]) for each in entry.denied),
            "failed": ", ".join(_code([each]) for each in entry.failed),
            "installed by": f"`{entry.install}`" if entry.install else "",
        }
        parts += ["", f"## {name}", "", "| | |", "|---|---|"]
        parts += [f"| {what} | {said} |" for what, said in rows.items() if said]
    return "\n".join([*parts, ""])


def models_page() -> str:
    parts = [
        "# Models",
        "",
        "The keys of `llm` and `local`, which describe the model of an agent with the driver of that name",
        "([how to use them](../howto/use-models.md)). This page is generated from the code.",
    ]
    tables: dict[str, type[Part]] = {"llm": LlmUse, "llm.prices": Prices, "local": LocalUse}
    for name, table in tables.items():
        rows = [f"| `{key}` | {_shown(field)} | {_told(table, key)} |" for key, field in table.model_fields.items()]
        parts += ["", f"## {name}", "", (table.__doc__ or "").strip(), "", "| key | default | meaning |"]
        parts += ["|---|---|---|", *rows]
    return "\n".join([*parts, ""])


def test_the_page_of_models_is_up_to_date() -> None:
    check("models.md", models_page())


def spoken_agents_page() -> str:
    parts = [
        "# Coding agents over ACP",
        "",
        "How the driver `acp` starts each coding agent that speaks the Agent Client Protocol",
        "([how to use them](../howto/use-coding-agents.md#agents-that-ask-first)). An agent's `acp` is one of these names, or an",
        "object with `agent` and the keys that differ from this page. The page is generated from the code.",
        "",
        "| key of `acp` | meaning |",
        "|---|---|",
        *(f"| `{name}` | {_told(AcpUse, name)} |" for name in AcpUse.model_fields),
        "",
        "A pattern in `allow`, `deny` and `ask` is a kind of tool (`read`, `edit`, `delete`, `move`, `search`, `execute`, `fetch`,",
        "`think`, `switch_mode`, `other`, or `*`), optionally followed by a colon and a glob for what the tool is called with.",
        "",
        "With `mcp: true` each agent gets AgentTalk's MCP server when a session is opened. The tables show what else it gets then,",
        "so that it waits for the server and shows its tools to its model.",
    ]
    for name, entry in acp_table.TABLE.items():
        variables = {**entry.variables, **entry.when_confined}
        server = {
            **(entry.mcp.variables if entry.mcp else {}),
            **{f"_meta.{key}": each for key, each in entry.meta.items()},
        }
        rows = {
            "program": f"`{entry.program}`" if entry.program else "",
            "arguments": _code(entry.argv),
            "variables": _code([f"{key}={value}" for key, value in variables.items()]),
            "so that it asks": _code([f"{key}={value}" for key, value in entry.asking.items()]),
            "instead, in a sandbox": _code([f"{key}={value}" for key, value in (entry.free or {}).items()]),
            "the model by": _code([f"{key}={value}" for key, value in entry.named.items()] or entry.model),
            "with our MCP server": _code([f"{key}={value}" for key, value in server.items()]),
            "handed over if set": ", ".join(f"`{each}`" for each in entry.handed),
            "installed by": f"`{entry.install}`" if entry.install else "",
        }
        parts += ["", f"## {name}", "", "| | |", "|---|---|"]
        parts += [f"| {what} | {said} |" for what, said in rows.items() if said]
    return "\n".join([*parts, ""])


def test_the_page_of_agents_that_are_spoken_with_is_up_to_date() -> None:
    check("spoken-agents.md", spoken_agents_page())


HTTP_GROUPS = {
    "Plans": ("/api/plans",),
    "Agents and numbers": ("/api/agents", "/api/honesty", "/api/metrics", "/api/spending", "/api/status"),
    "People": ("/api/human-requests",),
    "Messages that were refused": ("/api/deadletters",),
    "The ledger": ("/api/ledger", "/api/fsck", "/api/republish"),
    "Forges": ("/api/webhooks", "/api/toolchain"),
    "Mail": ("/api/mail",),
    "Commands": ("/api/commands", "/api/passes"),
    "Attempts, and agents elsewhere": ("/api/projects", "/api/agent/", "/api/me"),
    "Tokens": ("/api/tokens", "/api/login"),
    "Everything else": ("/",),
}
HTTP_INTRODUCTION = """# HTTP API

An engine answers on its loopback address (`agenttalk serve` prints it) and on its unix socket. `GET /api/openapi.json`
describes the API for programs. This page is generated from the code.

**Tokens.** Everything but `/healthz`, `/readyz` and signed webhooks needs `Authorization: Bearer TOKEN`. A token has one of
these roles; a request that its role does not allow is answered with 403.

| role | who | how to get the token |
|---|---|---|
| operator | a person or program that may do everything | `agenttalk token create NAME --role operator` |
| viewer | a person or program that may read everything and change nothing | `agenttalk token create NAME --role viewer` |
| agent | one attempt at a task; it reaches that task alone | the engine puts it into `AGENTTALK_TOKEN` |
| remote | an [agent elsewhere](../howto/agents-elsewhere.md) | `agenttalk token create AGENT` |
| worker | a pipeline that may report what it built, and nothing else | `agenttalk token create NAME --role worker` |
| fleet | a [worker](../howto/run-workers.md), for its syncs and the attempts that it was given | the worker signs it itself |
| invited | a worker that has still to enrol | `agenttalk worker invite` |

**Errors** are `application/problem+json` with a [code](errors.md), a `detail` and a `hint`. The tables name the status of an
answer when all is well. Otherwise it is 401 without a valid token, 403 for the wrong role, 404 if it does not exist, 409 if
the request does not fit the present state, 413 or 422 if the body is too large or wrong, and 503 if a retry can help. An
unknown filter or field, or a value that it cannot have, is an error.

**Language.** Sentences of the engine are in English, or in Chinese if a request says `Accept-Language: zh`. Codes, and words of
agents and people, stay as they are.

**Pages.** Lists come page by page. `limit` is the number of entries (100 by default, at most 500; of letters 50 and 200). Give `next` of an answer as
`after`, or as `before` where the newest come first, to get the next page; at the end it is null. With a filter a page may be short
or empty although more pages follow.

**Writing once.** Every POST of an operator or a worker takes `Idempotency-Key: TEXT` (1 to 255 characters). The same request to the same
address under the same key is carried out once. For 24 hours it gets the same answer again, with `Idempotency-Replayed: true`, also
after the engine was killed. Another body under that key is answered with 409 `KEY_REUSED`, and with 409 `KEY_IN_USE` while the
first request is still under way. If the engine died in the middle and doing it again could do harm, the answer is 409
`KEY_IN_DOUBT`: check what happened, then use another key. Refusals are not kept.

**Files** come as attachments that browsers do not display, piece by piece. `Range: bytes=A-B` asks for a part of one.

**MCP.** `POST /mcp` is the [MCP server](../howto/connect-by-mcp.md). A token can do there what it can do here, and no more.
"""


def http_page() -> str:
    document = openapi.build_document(ROUTES)
    groups: dict[str, list[str]] = {name: [] for name in HTTP_GROUPS}
    for path, operations in sorted(document["paths"].items()):
        group = next(name for name, begins in HTTP_GROUPS.items() if path.startswith(begins))
        for method, said in operations.items():
            filters = [f"`{each['name']}`" for each in said["parameters"] if each["in"] == "query"]
            told = said["summary"] + _asked(filters)
            roles = ", ".join(said.get("x-roles", ())) or "open"
            answers = ", ".join(status for status in said["responses"] if status.isdecimal())
            groups[group].append(f"| {method.upper()} | `{path}` | {roles} | {answers} | {told} |")
    parts = [HTTP_INTRODUCTION]
    for name, rows in groups.items():
        parts += [f"## {name}", "", "| | address | who | answers | what |", "|---|---|---|---|---|", *rows, ""]
    return "\n".join([*parts, *_bodies(document)])


def _bodies(document: dict[str, Any]) -> Iterator[str]:
    """What requests carry, with every field and an example that holds what is required."""
    yield from ("## Bodies of requests", "", "Bodies are JSON objects. Fields without *required* may be left out.", "")
    schemas = document["components"]["schemas"]
    for path, operations in sorted(document["paths"].items()):
        for method, said in operations.items():
            content = said.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            schema = schemas.get(str(content.get("$ref", "")).rpartition("/")[2], content)
            if not schema.get("properties"):
                continue
            required = set(schema.get("required", ()))
            yield from (f"### `{method.upper()} {path}`", "", "| field | type | what |", "|---|---|---|")
            for name, field in schema["properties"].items():
                what = " ".join(str(field.get("description", "")).split())
                needed = "*required*. " if name in required else ""
                yield f"| `{name}` | {_type(field, schemas)} | {needed}{what} |".replace("  ", " ")
            fields = {name: field for name, field in schema["properties"].items() if name in required}
            example = {name: _example(field, schemas) for name, field in fields.items()}
            yield from ("", "```json", json.dumps(example, ensure_ascii=False), "```", "")


def _type(field: dict[str, Any], schemas: dict[str, Any]) -> str:
    if "$ref" in field:
        return _type(schemas[field["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(each, schemas) for each in field["anyOf"]))
    if "enum" in field or "const" in field:
        return " or ".join(f"`{json.dumps(each)}`" for each in field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        return f"array of {_type(field.get('items', {}), schemas)}"
    kind = field.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _example(field: dict[str, Any], schemas: dict[str, Any]) -> Any:
    if "$ref" in field:
        return _example(schemas[field["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in field:
        return _example(field["anyOf"][0], schemas)
    if "enum" in field or "const" in field:
        return field.get("enum", [field.get("const")])[0]
    known: dict[str, Any] = {"array": [], "object": {}, "integer": 1, "number": 1.0, "boolean": True}
    return known.get(str(field.get("type")), "…")


def _asked(filters: Sequence[str]) -> str:
    return f" Query: {', '.join(filters)}." if filters else ""


def test_the_page_of_the_http_api_is_up_to_date() -> None:
    check("http-api.md", http_page())


def _told_of_server(entry: CodingAgent) -> str:
    if entry.mcp is None:
        return "not possible"
    told = [*entry.mcp.args, *(f"{name}={value}" for name, value in entry.mcp.variables.items())]
    home = f"; in a sandbox `~/{entry.mcp.settings}`" if entry.mcp.settings else ""
    return _code(told) + home


def _code(parts: Sequence[str]) -> str:
    return f"`` {' '.join(parts)} ``".replace("|", "\\|") if parts else ""


def test_the_page_of_coding_agents_is_up_to_date() -> None:
    check("coding-agents.md", coding_agents_page())


def check(name: str, text: str) -> None:
    if os.environ.get("AGENTTALK_UPDATE_GOLDEN"):
        (REFERENCE / name).write_text(text, encoding="utf-8")
    assert (REFERENCE / name).read_text(encoding="utf-8") == text


def test_the_page_of_codes_is_up_to_date() -> None:
    check("errors.md", errors_page())


def test_the_page_of_documents_is_up_to_date() -> None:
    check("documents.md", documents_page())


def test_every_code_has_a_meaning() -> None:
    assert MEANINGS.keys() == set(Code)
    assert all(code.value == code.name for code in Code)


def test_for_every_code_there_is_something_to_do() -> None:
    assert REMEDIES.keys() == {code.name for code in Code}


TABLES: dict[str, type[BaseModel]] = {
    "agents.NAME": AgentSettings,
    "agents.NAME.forge.SOURCE": AccountSettings,
    "notify.NAME": NotifySettings,
    "schedules.NAME": ScheduleSettings,
    "sources.NAME": SourceSettings,
    "toolchain.risk": RiskSettings,
    "gc.KIND": KeepSettings,
}


def settings_page() -> str:
    plain = {
        name: field for name, field in Settings.model_fields.items() if not isinstance(field.default, SettingsTable)
    }
    tables: dict[str, type[BaseModel]] = {
        name: type(field.default)
        for name, field in Settings.model_fields.items()
        if isinstance(field.default, SettingsTable)
    } | TABLES
    own = [
        f"| `{name}` | {_shown(field)} | {_told(Settings, name)} |" for name, field in plain.items() if name == "locale"
    ]
    parts = [
        "# Settings",
        "",
        "Settings are in `agenttalk.toml` at the root. A variable such as `AGENTTALK__SERVER__PORT` wins over the file. An",
        "unknown key is an error that names the nearest known one. Secrets do not belong in the file: keys that end in `_env`",
        "name a variable, keys that end in `_file` a file. `agenttalk config show --origin` shows each setting and its origin.",
        "This page is generated from the code.",
        "",
        "| key | default | meaning |",
        "|---|---|---|",
        *own,
    ]
    for name, table in sorted(tables.items()):
        rows = [f"| `{key}` | {_shown(field)} | {_told(table, key)} |" for key, field in table.model_fields.items()]
        parts += ["", f"## [{name}]", "", (table.__doc__ or "").strip(), "", "| key | default | meaning |"]
        parts += ["|---|---|---|", *rows]
    return "\n".join([*parts, ""])


def _told(table: type[BaseModel], key: str) -> str:
    return " ".join(read_field_docs(table).get(key, "").split())


def _shown(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    if field.is_required():
        return "needed"
    return "" if value in (None, (), {}) or isinstance(value, SettingsTable) else f"`{json.dumps(value)}`"


def test_the_page_of_settings_is_up_to_date() -> None:
    check("settings.md", settings_page())


def test_the_page_of_states_names_every_state_and_phase_as_the_pages_do() -> None:
    text = (REFERENCE / "states.md").read_text(encoding="utf-8")
    assert [
        state for state in get_args(task_states.State) if f"| `{state}` | {CODES[f'state.{state}'].en} |" not in text
    ] == []
    assert [phase for phase in get_args(task_states.Phase) if f"| `{phase}` |" not in text] == []


def test_the_page_of_the_plan_file_names_every_driver() -> None:
    text = (REFERENCE / "plan-file.md").read_text(encoding="utf-8")
    assert [driver for driver in DRIVERS if f"| `{driver}` |" not in text] == []


def test_the_page_of_the_plan_file_names_every_key_or_the_page_that_does() -> None:
    pages = ("plan-file", "coding-agents", "spoken-agents", "models", "documents")
    texts = {name: (REFERENCE / f"{name}.md").read_text(encoding="utf-8") for name in pages}
    found = [each for _, each in inspect.getmembers(model, inspect.isclass) if issubclass(each, Part)]
    specs = [each for each in found if each.__module__ == model.__name__]
    keys = {(spec.__name__, field.alias or name) for spec in specs for name, field in spec.model_fields.items()}
    assert len(keys) > 100
    told = {key for _, key in keys if any(re.search(rf"[`{{ ]{key}[`,}} ]", text) for text in texts.values())}
    assert {(spec, key) for spec, key in keys if key not in told} == set()
    assert all(f"]({name}.md" in texts["plan-file"] for name in pages[1:])
