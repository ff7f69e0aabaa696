"""The recorded terminal on the first screen of the README shows a lie that is refused, and work that is proven."""

from __future__ import annotations

import html
import re
from pathlib import Path

IMAGES = Path(__file__).parents[2] / "docs/images"


def test_the_recording_shows_a_refusal_and_a_proof() -> None:
    lines = re.findall(r"<text.*?</text>", (IMAGES / "until.svg").read_text(encoding="utf-8"), re.DOTALL)
    seen = [html.unescape(re.sub(r"<[^>]+>", "", line)) for line in lines]
    [command] = [line for line in (IMAGES / "until.session").read_text().splitlines() if line.startswith("agenttalk")]
    shown = [number for number, line in enumerate(seen) if line.startswith(f"$ {command}")]
    refused = [number for number, line in enumerate(seen) if line.startswith("✗ round 1: refused:")]
    proven = [number for number, line in enumerate(seen) if line.startswith("✓ proven: pytest -q (round 2 of 4")]
    assert shown
    assert refused
    assert proven
    assert not [line for line in seen if "not found" in line]
