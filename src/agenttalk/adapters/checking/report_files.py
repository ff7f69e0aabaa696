"""Removes and reads JUnit reports: one file, or a folder in which a runner writes one file for each of its parts."""

from __future__ import annotations

from agenttalk.contracts.errors import AgentTalkError, MissingError
from agenttalk.ports.folders import Folder
from agenttalk.rules.suites import channel, junit
from agenttalk.rules.suites.outcomes import Outcomes, UnreadableReport

_ENDING = ".xml"
_MOST = 10_000
"""Files of a folder that are read."""


def remove_reports(path: str, checkout: Folder) -> None:
    """Remove reports that exist already."""
    for name in _list_reports(path, checkout):
        checkout.remove(name)


def read_reports(path: str, checkout: Folder, limit: int) -> Outcomes | UnreadableReport | None:
    """Read a report, or all of a folder. None where there is none; one that cannot be read makes all unreadable."""
    outcomes: list[Outcomes] = []
    left = limit
    for name in _list_reports(path, checkout):
        try:
            data = checkout.read(name, left)
        except MissingError:
            continue
        except AgentTalkError as error:
            return UnreadableReport(error.message)
        left -= len(data)
        report = junit.parse(data)
        if isinstance(report, UnreadableReport):
            return report
        outcomes.append(report)
    return channel.merge_outcomes(outcomes) if outcomes else None


def _list_reports(path: str, checkout: Folder) -> list[str]:
    """List the files of a report."""
    try:
        entry = checkout.entry(path)
        if entry is None or entry.kind != "folder":
            return [path]
        with checkout.open_folder(path) as folder:
            return [f"{path}/{name}" for name in sorted(folder.names()) if name.endswith(_ENDING)][:_MOST]
    except MissingError:
        return [path]
