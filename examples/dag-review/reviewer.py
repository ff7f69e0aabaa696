"""A reviewer of plans.

`order` checks whether tasks build on each other, `tests` whether another agent tests what is built.
"""

import json
import os
import pathlib
import sys

[document] = pathlib.Path(os.environ["AGENTTALK_INPUTS"], "task_dag").iterdir()
nodes = json.loads(document.read_text(encoding="utf-8"))["nodes"]
issues = []

if sys.argv[1] == "order":
    lost = [node["task_id"] for node in nodes[1:] if not node.get("depends_on")]
    issues += [{"severity": "HIGH", "description": "it builds on nothing", "location": name} for name in lost]
else:
    for node in nodes:
        users = [each for each in nodes if node["task_id"] in each.get("depends_on", [])]
        others = [each for each in users if each["assigned_agent_id"] != node["assigned_agent_id"]]
        if node["task_id"] == "build" and not others:
            add = "add a task that tests it, by another agent"
            issue = {"severity": "HIGH", "description": "no other agent tests what is built"}
            issues.append({**issue, "location": node["task_id"], "suggestion": add})

review = {"score": 40 if issues else 90, "decision": "REVISE" if issues else "APPROVE", "issues": issues}
command = json.loads(pathlib.Path(os.environ["AGENTTALK_COMMAND"]).read_text(encoding="utf-8"))
[output] = [each["output_name"] for each in command["produces"]]
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], output).write_text(json.dumps(review), encoding="utf-8")
print(json.dumps({"result": f"{len(issues)} issues"}))
