"""Files and documents, as this party writes and reads them."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NUMBERS = itertools.count(1)


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def stamp(now: datetime) -> str:
    return now.astimezone(UTC).isoformat().replace("+00:00", "Z")


def number(now: datetime) -> str:
    return f"{now.strftime('%Y%m%dT%H%M%SZ')}_{next(NUMBERS):04d}"


def put(path: Path, data: bytes) -> None:
    """Write beside, then rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}.tmp")
    temporary.write_bytes(data)
    temporary.rename(path)


def write(path: Path, document: dict[str, Any]) -> None:
    put(path, json.dumps(document, ensure_ascii=False, indent=2).encode())


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def read_if_there(path: Path) -> Any:
    try:
        return read(path)
    except (OSError, ValueError):
        return None


def move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(source, target)


def messages(folder: Path) -> list[Path]:
    """What lies in a folder and is a message; hidden names are not."""
    if not folder.is_dir():
        return []
    return sorted(each for each in folder.glob("*.msg.json") if not each.name.startswith("."))


def folders(path: Path) -> list[str]:
    if not path.is_dir():
        return []
    return sorted(each.name for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
