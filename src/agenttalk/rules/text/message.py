"""Messages: sentences of the engine that know their id and parameters, so that each reader gets them in their language.

A message is a text: its English. So it can stand wherever a text stands, and code that knows nothing of languages logs
it, compares it and writes it down. A Chinese reader gets the Chinese sentence with the same parameters. Nothing is
recovered from the words: a text that is not a message is shown as it is.
"""

# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from string import Formatter
from types import MappingProxyType
from typing import Any, Final, Self

from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.core.wire import MAX_INTEGER

LOCALES: Final[tuple[Locale, ...]] = ("en", "zh")
Parameter = str | int | float | tuple[str, ...]
"""What fills a place of a sentence. A text may be a message; several texts become one, with separators."""


@dataclass(frozen=True, eq=False)
class Template:
    """A sentence in both languages. Names in braces are its parameters; those with !r are quoted."""

    id: str
    """Public and stable: documents name the sentence by it."""
    en: str
    zh: str
    separators: tuple[str, str] = ("; ", "；")
    """What stands between several texts that fill one place, in English and Chinese."""

    def __call__(self, **params: object) -> Message:
        """Make a message of this sentence."""
        given = {}
        for name in self.formats:
            value = params[name]
            given[name] = value if type(value) is str else self._to_parameter(name, value)
        return Message(self, given)

    @cached_property
    def formats(self) -> Mapping[str, str]:
        """The names of the parameters, each with the format that its place asks for."""
        return {name: kind or "" for _, name, kind, _ in Formatter().parse(self.en) if name}

    @cached_property
    def _unfilled(self) -> Mapping[str, str]:
        """The sentence in each language, if it has no parameters: every prompt has several of these."""
        return {} if self.formats else {locale: self.fill({}, locale) for locale in LOCALES}

    def render(self, locale: Locale, /, **params: object) -> str:
        """Return the sentence in a language, for a reader who gets it now: no message is made of it."""
        return self._unfilled.get(locale) or self.fill(params, locale)

    def fill(self, params: Mapping[str, object], locale: Locale) -> str:
        """Return the sentence with its parameters in a language."""
        chinese = locale == "zh"
        for value in params.values():
            if isinstance(value, _COMPOSED):
                separator = self.separators[chinese]
                params = {name: _fill_in(part, locale, separator) for name, part in params.items()}
                break
        return (self.zh if chinese else self.en).format_map(params)

    def _to_parameter(self, name: str, value: object) -> Parameter:
        """Return a value as a parameter. A number stays one only where JSON and the sentence both keep it as it is."""
        match value:
            case Message():
                return value
            case list() | tuple():
                return tuple(part if isinstance(part, Message) else str(part) for part in value)
            case bool():
                return str(value)
            case int() if abs(value) <= MAX_INTEGER:
                return value
            case float() if self.formats.get(name):
                return value
        return str(value)


def make_table(prefix: str, sentences: Mapping[str, tuple[str, str]]) -> Mapping[str, Template]:
    """Return sentences by their keys, each in English and Chinese; their ids begin with the prefix."""
    return MappingProxyType({key: Template(f"{prefix}.{key}", en, zh) for key, (en, zh) in sentences.items()})


class Message(str):
    """A sentence of the catalogue with its parameters. As a text it is its English.

    A message that was stored keeps the English words of that time.
    """

    __slots__ = ("params", "template")
    template: Template
    params: Mapping[str, Parameter]

    def __new__(cls, template: Template, params: Mapping[str, Parameter], text: str | None = None) -> Self:
        """Make a message. `text` is its English as it was stored, if it was."""
        message = super().__new__(cls, template.fill(params, "en") if text is None else text)
        object.__setattr__(message, "template", template)
        object.__setattr__(message, "params", params)
        return message

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a message does not change."""
        raise AttributeError(name)

    def __copy__(self) -> Self:
        """Return the message itself: it does not change."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        """Return the message itself: it does not change."""
        return self

    @property
    def id(self) -> str:
        """The id of its sentence."""
        return self.template.id

    def render(self, locale: Locale) -> str:
        """Return the sentence in a language."""
        return str(self) if locale == "en" else self.template.fill(self.params, locale)


_COMPOSED: Final = (tuple, Message)
"""Parameters that differ between languages."""


def _fill_in(value: object, locale: Locale, separator: str) -> object:
    """Return a parameter as it stands in a sentence."""
    if isinstance(value, tuple):
        return separator.join([render(part, locale) for part in value])
    return value.render(locale) if isinstance(value, Message) else value


def render(text: str, locale: Locale) -> str:
    """Return a text in a language. One that is not a message is shown as it is."""
    return text.render(locale) if isinstance(text, Message) else text


def read_locale(accepted: str) -> Locale:
    """Return the language that an `Accept-Language` header asks for: English, unless Chinese comes first in it."""
    return "zh" if accepted.lower().startswith("zh") else "en"


def render_all(value: Any, locale: Locale) -> Any:
    """Return a JSON value in which each message is its sentence in a language. All other texts stay as they are."""
    if isinstance(value, str):
        return render(value, locale)
    if isinstance(value, Mapping):
        return {name: render_all(part, locale) for name, part in value.items()}
    return [render_all(part, locale) for part in value] if isinstance(value, list | tuple) else value


def mentions(text: str, template: Template) -> bool:
    """Return whether a text is a message of this sentence, or has one as a parameter."""
    if isinstance(text, Message):
        return text.template is template or any(
            mentions(part, template)
            for value in text.params.values()
            for part in (value if isinstance(value, tuple) else (value,))
            if isinstance(part, str)
        )
    return False


JOINED: Final = Template("text.joined", "{parts}", "{parts}")
"""Sentences one after the other."""
LISTED: Final = Template("text.listed", "{parts}", "{parts}", (", ", "，"))
"""Short parts of one sentence."""
CLAUSES: Final = Template("text.clauses", "{parts}", "{parts}", ("; ", "；"))
"""Parts of one sentence that have commas of their own."""
LINES: Final = Template("text.lines", "{parts}", "{parts}", ("\n", "\n"))
"""Texts one below the other."""


def join(parts: Iterable[str], template: Template = JOINED) -> str:
    """Join texts. The result is a message if one of them is."""
    texts = tuple(parts)
    if len(texts) == 1:
        return texts[0]
    if any(isinstance(text, Message) for text in texts):
        return template(parts=texts)
    return template.separators[0].join(texts)


def cut(text: str, most: int) -> str:
    """Cut a text that is too long. A message that is cut is its English."""
    return text if len(text) <= most else text[:most]


def cut_head(text: str, most: int) -> str:
    """Cut the beginning of a text that is too long. A message that is cut is its English."""
    return text if len(text) <= most else text[-most:]


ABOUT: Final = Template("text.about", "{subject}: {what}", "{subject}：{what}")
WHAT_IS: Final = Template("text.what_is", "{subject} {what}", "{subject} {what}")
MORE: Final = Template("text.more", "{names} and {count} more", "{names}，另有 {count} 个")


def join_names(names: Collection[str]) -> str:
    """Return some names, quoted, for a message."""
    shown = sorted(names)
    first = ", ".join(repr(name) for name in shown[:3])
    return MORE(names=first, count=len(shown) - 3) if len(shown) > 3 else first
