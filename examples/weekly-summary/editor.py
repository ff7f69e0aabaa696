"""The editor: makes one page of all reports that it was given."""

import json
import os
import pathlib

inputs = pathlib.Path(os.environ["AGENTTALK_INPUTS"])
reports = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(inputs.rglob("weekly_report_*.json"))]
lines = ["# This week", ""]
lines += [f"- {each['who']}: {', '.join(each['done'])}" for each in reports]
stuck = [f"- {each['who']}: {what}" for each in reports for what in each["stuck"]]
lines += ["", "## Stuck", "", *(stuck or ["- none"]), ""]
output = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "team_week.md")
output.write_text("\n".join(lines), encoding="utf-8")
print(json.dumps({"result": f"{len(reports)} reports on one page"}))
