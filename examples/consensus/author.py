"""The author: submits the proposal, and revises it when the experts do not agree."""

import json
import os
import pathlib

inputs = pathlib.Path(os.environ["AGENTTALK_INPUTS"])
outputs = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])

if os.environ["AGENTTALK_TASK_ID"] == "propose":
    text = pathlib.Path(__file__).with_name("proposal.md").read_text(encoding="utf-8")
    (outputs / "proposal.md").write_text(text, encoding="utf-8")
    print('{"result": "here is the proposal"}')
else:
    proposal = (inputs / "proposal" / "proposal.md").read_text(encoding="utf-8")
    told = json.loads((inputs / "consensus" / "consensus.json").read_text(encoding="utf-8"))
    open_points = [f"- to be answered for {each}: {why}" for each, why in told["objections"].items()]
    (outputs / "revised.md").write_text("\n".join([proposal.rstrip(), *open_points, ""]), encoding="utf-8")
    print(json.dumps({"result": f"points that have to be answered: {len(open_points)}"}))
