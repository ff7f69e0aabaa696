"""A builder who judges its input, and first claims to be done without any work."""

import json
import os
import pathlib

if os.environ["AGENTTALK_MODE"] == "validate":
    spec = next(pathlib.Path(os.environ["AGENTTALK_INPUTS"]).rglob("spec.md")).read_text(encoding="utf-8")
    issue = {"severity": "HIGH", "category": "COMPLETENESS", "description": "there is no price in it"}
    fine = "cents" in spec
    judgement = {"score": 90 if fine else 30, "decision": "ACCEPT" if fine else "REJECT"}
    judgement |= {"reason": "it can be built" if fine else "it cannot be built", "issues": [] if fine else [issue]}
    print(json.dumps(judgement))
else:
    command = json.loads(pathlib.Path(os.environ["AGENTTALK_COMMAND"]).read_text(encoding="utf-8"))
    if "reexecute" in command:
        pathlib.Path("price.py").write_text("def price(items):\n    return 40 * items\n", encoding="utf-8")
    print("Done. All tests pass.")
