"""The analyst: says which cases have to hold."""

import json
import os
import pathlib

CASES = [
    {"name": "one costs one", "count": 1, "cents": 40},
    {"name": "two cost two", "count": 2, "cents": 80},
    {"name": "ten cost a tenth less", "count": 10, "cents": 360},
    {"name": "none cost nothing", "count": 0, "cents": 0},
]
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "test_spec.json").write_text(json.dumps(CASES), encoding="utf-8")
print(json.dumps({"result": f"{len(CASES)} cases"}))
