"""Chooses the language in which commands print for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agenttalk.contracts.core.vocabulary import Locale

VARIABLES: Final = ("LC_ALL", "LC_MESSAGES", "LANG")
"""Variables that name a locale. The first one that is set decides."""
_UNTRANSLATED: Final = ("C", "POSIX")


def choose_locale(environment: Mapping[str, str]) -> Locale:
    """Return the language that the environment asks for, as gettext reads it: Chinese if it is named first.

    `LANGUAGE` lists languages by preference, but the locales C and POSIX turn it off.
    """
    locale = next((value for name in VARIABLES if (value := environment.get(name))), "")
    wanted = environment.get("LANGUAGE", "").partition(":")[0]
    if not wanted or locale.partition(".")[0] in _UNTRANSLATED:
        wanted = locale
    return "zh" if wanted.lower().startswith("zh") else "en"
