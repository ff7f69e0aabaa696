"""Reads settings from `agenttalk.toml`, and from variables `AGENTTALK__SECTION__KEY`, which win."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.problems import field_path, find_nearest, problems_of
from agenttalk.contracts.errors import Code, ContractError, JsonError, Problem, UsageError
from agenttalk.wiring.settings.tables import (
    LONGEST_URL,
    PASSWORD,
    AccountSettings,
    AgentSettings,
    NotifySettings,
    ScheduleSettings,
    Settings,
    SettingsTable,
    SourceSettings,
    StoreSettings,
)

FILE: Final = "agenttalk.toml"
PREFIX: Final = "AGENTTALK__"
DEFAULT: Final = "default"
_LARGEST: Final = 1024 * 1024


def load(root: Path, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of a root. Raises ContractError with every problem, or UsageError."""
    data = _read(root / FILE)
    problems = _secrets(data) + _placed(data, os.environ if environ is None else environ) + _strange(Settings, data)
    if not problems:
        try:
            return _with_url(root, Settings.model_validate(data) if data else Settings.model_construct())
        except ValidationError as error:
            problems = list(problems_of(error))
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    message = f"the settings of {root} are wrong: {first.field}: {first.message}{more}"
    raise ContractError(first.code, message, problems, hint=first.hint)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise UsageError(Code.FILE_TOO_LARGE, f"{path} has more than {_LARGEST:,} bytes")
        return tomllib.loads(data.decode())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(Code.FILE_UNREADABLE, f"cannot read {path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(Code.FIELD_VALUE, f"{path} is not TOML: {error}", hint="see https://toml.io") from error


def _secrets(data: dict[str, Any]) -> list[Problem]:
    """Report passwords in the file: agents can read it."""
    store = data.get("store")
    url = store.get("url") if isinstance(store, dict) else None
    if not isinstance(url, str) or not PASSWORD.search(url):
        return []
    hint = "set AGENTTALK__STORE__URL, or store.url_file"
    return [Problem(Code.FIELD_VALUE, "store.url", "a password does not belong in this file", hint)]


def _with_url(root: Path, settings: Settings) -> Settings:
    """Read the store's URL from the file that the settings name, if they name one."""
    if settings.store.url_file is None:
        return settings
    path = root / settings.store.url_file
    try:
        with path.open("rb") as file:
            url = file.read(LONGEST_URL).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(Code.FILE_UNREADABLE, f"cannot read {path}, which store.url_file names") from error
    return settings.model_copy(update={"store": StoreSettings(url=url, url_file=settings.store.url_file)})


def _placed(data: dict[str, Any], environ: Mapping[str, str]) -> list[Problem]:
    """Apply the variables of the environment; report those that fit no setting."""
    problems = []
    for name in sorted(name for name in environ if name.startswith(PREFIX)):
        path = name.removeprefix(PREFIX).lower().split("__")
        holder: Any = data
        for depth, part in enumerate(path[:-1]):
            key = _agent(holder, part) if path[:depth] in (["agents"], ["sources"]) else part
            holder = holder.setdefault(key, {}) if isinstance(holder, dict) else None
        if not isinstance(holder, dict) or not all(path):
            hint = "write AGENTTALK__SERVER__PORT"
            problems.append(Problem(Code.FIELD_UNKNOWN, name, "this variable has no effect", hint))
        else:
            holder[path[-1]] = _value(path, environ[name])
            if path == ["store", "url"]:
                holder.pop("url_file", None)  # the file's own value
    return problems


def _agent(agents: Any, lower: str) -> str:
    """Find an agent's id as the file spells it; variables are written in capitals."""
    names = [str(name) for name in agents] if isinstance(agents, dict) else []
    return next((name for name in names if name.lower() == lower), lower)


def _value(path: list[str], text: str) -> Any:
    """Parse a variable's value: text where the setting is a text, else JSON."""
    field = _field(path)
    if field is None or field.annotation is None:
        return text
    try:
        return TypeAdapter(field.annotation).validate_python(text, strict=True)
    except ValidationError:
        pass
    try:
        return wire.read(text.encode("utf-8", "replace"))
    except JsonError:
        return text


def _field(path: list[str]) -> FieldInfo | None:
    if path[0] in {"agents", "sources"}:
        named = AgentSettings if path[0] == "agents" else SourceSettings
        return named.model_fields.get(path[2]) if len(path) == 3 else None
    kind: type[SettingsTable] = Settings
    for part in path[:-1]:
        section = kind.model_fields[part].default if part in kind.model_fields else None
        if not isinstance(section, SettingsTable):
            return None
        kind = type(section)
    return kind.model_fields.get(path[-1])


_NAMED: Final[dict[tuple[type[BaseModel], str], type[BaseModel]]] = {
    (Settings, "agents"): AgentSettings,
    (Settings, "sources"): SourceSettings,
    (Settings, "notify"): NotifySettings,
    (Settings, "schedules"): ScheduleSettings,
    (AgentSettings, "forge"): AccountSettings,
}
"""Tables whose keys are names that people give."""


def _strange(kind: type[BaseModel], data: Any, path: tuple[str, ...] = ()) -> list[Problem]:
    """Report unknown keys, each with the nearest known one."""
    problems: list[Problem] = []
    for key, value in data.items() if isinstance(data, dict) else ():
        field = kind.model_fields.get(key)
        if field is None:
            near = find_nearest(key, kind.model_fields)
            hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(kind.model_fields)}"
            problems.append(Problem(Code.FIELD_UNKNOWN, field_path((*path, key)), "there is no such setting", hint))
        elif (kind, key) in _NAMED and isinstance(value, dict):
            for name, part in value.items():
                problems += _strange(_NAMED[kind, key], part, (*path, key, name))
        elif isinstance(field.default, SettingsTable):
            problems += _strange(type(field.default), value, (*path, key))
    return problems


class SettingOrigin(NamedTuple):
    """A setting in force, and its origin."""

    key: str
    value: Any
    origin: str
    """`default`, `agenttalk.toml`, or the name of a variable."""


def origins(root: Path, environ: Mapping[str, str] | None = None) -> list[SettingOrigin]:
    """List every setting that has a value, without passwords in URLs. Raises what `load` raises."""
    environ = os.environ if environ is None else environ
    said, held = _read(root / FILE), load(root, environ)
    variables = {
        tuple(name.removeprefix(PREFIX).lower().split("__")): name for name in environ if name.startswith(PREFIX)
    }
    found = []
    for path, value in leaves(held):
        variable = variables.get(tuple(part.lower() for part in path))
        origin = variable or (FILE if _is_said(said, path) else DEFAULT)
        if path == ("store", "url"):
            origin = "store.url_file" if held.store.url_file else origin
            found.append(SettingOrigin("store.url", _without_password(value), origin))
        else:
            found.append(SettingOrigin(field_path(path), value, origin))
    return found


def leaves(table: BaseModel, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the settings of a table and of the tables in it."""
    for key in type(table).model_fields:
        value = getattr(table, key)
        tables = {(): value} if isinstance(value, SettingsTable) else value if _is_named(value) else None
        if tables is not None:
            for name, each in tables.items():
                yield from leaves(each, (*path, key, *((name,) if name else ())))
        elif value is not None:
            yield (*path, key), table.model_dump(mode="json", include={key}, exclude_none=True)[key]


def _is_named(value: Any) -> bool:
    """Whether a setting holds tables by names that people give."""
    return isinstance(value, dict) and bool(value) and all(isinstance(each, BaseModel) for each in value.values())


def _is_said(data: Any, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return True


def _without_password(url: str) -> str:
    """Remove user and query from a URL, where either holds a password."""
    if not PASSWORD.search(url):
        return url
    parts = urlsplit(url)
    return f"{parts.scheme}://***@{parts.hostname or ''}{parts.path}"
