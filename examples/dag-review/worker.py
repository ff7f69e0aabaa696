"""Works on the plan once it is approved: makes what its task is asked for."""

import json
import os
import pathlib

command = json.loads(pathlib.Path(os.environ["AGENTTALK_COMMAND"]).read_text(encoding="utf-8"))
for each in command["produces"]:
    name = each["output_name"]
    text = f"{name}, made by task {command['task_id']}\n"
    pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], name).write_text(text, encoding="utf-8")
print('{"result": "made"}')
