"""The tester: lists cases, and later runs every one of them against the code."""

import json
import os
import pathlib

CASES = [["apple", 1, 1], ["apple", 10, 9], ["pear", 3, 3], ["stone", 1, None]]
"""Item, how many, and the price in units of one; None where it must be an error."""
inputs = pathlib.Path(os.environ["AGENTTALK_INPUTS"])
outputs = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])


def holds(price, unit, item, count, expected):
    """Check that the program gives the expected price of a case."""
    try:
        found = price(item, count)
    except KeyError:
        return expected is None
    return expected is not None and found == expected * unit[item]


if os.environ["AGENTTALK_TASK_ID"] == "test_plan":
    (outputs / "cases.json").write_text(json.dumps(CASES), encoding="utf-8")
    print(json.dumps({"result": f"{len(CASES)} cases"}))
else:
    [code] = (inputs / "code").rglob("*.py")
    [cases] = (inputs / "cases").rglob("*.json")
    [prices] = (inputs / "prices").rglob("*.json")
    unit = json.loads(prices.read_text(encoding="utf-8"))
    built = {}
    exec(compile(code.read_text(encoding="utf-8"), str(code), "exec"), built)
    results = [holds(built["price"], unit, *case) for case in json.loads(cases.read_text(encoding="utf-8"))]
    (outputs / "report.json").write_text(json.dumps({"cases": len(results), "held": sum(results)}), encoding="utf-8")
    score = round(100 * sum(results) / len(results))
    print(json.dumps({"result": "all cases were run", "score": score, "score_explanation": f"{sum(results)} held"}))
