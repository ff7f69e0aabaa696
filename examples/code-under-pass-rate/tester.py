"""The tester: runs the suite against the code that it was given.

It is started twice: to judge the code (AGENTTALK_MODE=validate), and, once that is good enough, to report.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

SUITE = pathlib.Path(__file__).resolve().parent / "shop" / "tests"
code = pathlib.Path(os.environ["AGENTTALK_INPUTS"], "code", "price.py")


def run():
    """How many tests there are, and what was wrong with each that fails."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(SUITE, pathlib.Path(folder, "tests"))
        shutil.copy(code, pathlib.Path(folder, "price.py"))
        report = pathlib.Path(folder, "report.xml")
        program = [sys.executable, str(pathlib.Path(folder, "tests", "run.py")), str(report)]
        subprocess.run(program, check=False, capture_output=True)
        cases = ElementTree.parse(report).getroot().findall("testcase")
    failures = {case.get("name"): case.find("failure") for case in cases}
    return len(cases), {name: each.get("message") for name, each in failures.items() if each is not None}


number, failed = run()
rate = 100 * (number - len(failed)) // number
told = f"{number - len(failed)} of {number} tests pass ({rate} %)"

if os.environ["AGENTTALK_MODE"] == "validate":
    issues = [
        {"severity": "HIGH", "category": "TESTS", "description": why, "location": f"tests/test_price.py#{name}"}
        for name, why in failed.items()
    ]
    decision = "ACCEPT" if rate >= 80 else "REJECT"
    print(json.dumps({"score": rate, "decision": decision, "reason": f"{told}; 80 % are asked for", "issues": issues}))
else:
    report = {"tests": number, "failed": failed, "pass_rate": rate}
    pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "test_report.json").write_text(json.dumps(report), encoding="utf-8")
    print(json.dumps({"result": told, "score": rate, "score_explanation": told}))
