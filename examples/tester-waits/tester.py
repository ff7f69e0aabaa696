"""The tester: runs every case of the specification against what lies in the package."""

import json
import os
import pathlib
import zipfile

inputs = pathlib.Path(os.environ["AGENTTALK_INPUTS"])
outputs = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
cases = json.loads((inputs / "spec" / "test_spec.json").read_text(encoding="utf-8"))

if os.environ["AGENTTALK_TASK_ID"] == "announce":
    lines = [f"- {case['name']}" for case in cases]
    (outputs / "announcement.md").write_text("\n".join(["# Going to be tested", "", *lines, ""]), encoding="utf-8")
    print(json.dumps({"result": f"{len(cases)} cases are going to be tested"}))
else:
    [package] = (inputs / "package").iterdir()
    with zipfile.ZipFile(package) as archive:
        code = archive.read("price.py").decode("utf-8")
    delivered = {}
    exec(compile(code, "price.py", "exec"), delivered)
    failed = [case["name"] for case in cases if delivered["price"](case["count"]) != case["cents"]]
    held = len(cases) - len(failed)
    report = {"cases": len(cases), "held": held, "failed": failed}
    (outputs / "test_report.json").write_text(json.dumps(report), encoding="utf-8")
    why = f"{held} of {len(cases)} cases hold" + (f", but not: {', '.join(failed)}" if failed else "")
    print(json.dumps({"result": why, "score": round(100 * held / len(cases)), "score_explanation": why}))
