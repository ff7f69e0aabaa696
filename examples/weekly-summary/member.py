"""A member of the team: reports a week."""

import json
import os
import pathlib
import sys

WEEKS = {
    "ada": {"done": ["the price function"], "stuck": []},
    "grace": {"done": ["the importer", "its tests"], "stuck": ["the old data has no dates"]},
    "linus": {"done": ["the build is twice as fast"], "stuck": []},
}

who = sys.argv[1]
output = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], f"weekly_report_{who}.json")
output.write_text(json.dumps({"who": who, **WEEKS[who]}), encoding="utf-8")
print(json.dumps({"result": f"{len(WEEKS[who]['done'])} things done"}))
