"""The end of what a check printed, and the failed tests, are shown to whoever has to mend or decide it."""

from __future__ import annotations

import pytest

from doors.cli.plans.test_run import Desk, desk, task

__all__ = ["desk"]
PROGRAM = """
import os, pathlib, sys
here = pathlib.Path(__file__).parent
with open(here / "prompts", "a") as file:
    file.write(sys.stdin.read())
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "a.txt").write_text("a" + os.environ["AGENTTALK_COMMAND_ID"])
print("ok")
"""
SUITE = (  # what it prints does not stand in it
    "h=HEAD; t=price; w=WORD; echo $h OF IT; echo FAILED tests/test_shop.py::test_$t - wrong; "
    "for i in 1 2 3 4 5 6 7 8 9; do echo noise $i $(cat a.txt); done; "
    "head -c 3000 /dev/zero | tr '\\0' x; echo; echo THE LAST $w; exit 1"
)


@pytest.mark.mends("C6")
def test_the_end_of_a_check_and_the_failed_tests_are_shown(desk: Desk) -> None:
    (desk.folder / "work.py").write_text(PROGRAM, encoding="utf-8")
    promise = {
        "objective": "o",
        "acceptance": [{"id": "a", "description": "d", "evidenceRequired": ["suite"]}],
        "checks": [{"id": "suite", "kind": "run", "run": SUITE, "red_first": "off"}],
    }
    outputs = [{"name": "a.txt", "deliverable": True}]
    desk("run", desk.plan(task("one", promise=promise, outputs=outputs, max_reexecute_times=1)), code=1)
    for shown in (desk("explain", "shop/one"), desk("inbox")):
        assert "THE LAST WORD" in shown
        assert "test_price" in shown
        assert "HEAD OF IT" not in shown
    prompts = (desk.folder / "prompts").read_text()
    assert "THE LAST WORD" in prompts
    assert "FAILED tests/test_shop.py::test_price" in prompts
