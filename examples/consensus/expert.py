"""An expert: is content when the proposal says something about the one thing that matters to it."""

import json
import os
import pathlib
import sys

WANTS = {"security": "security:", "operations": "operations:", "finance": "cost:"}

who = sys.argv[1]
proposal = pathlib.Path(os.environ["AGENTTALK_INPUTS"], "proposal", "proposal.md").read_text(encoding="utf-8")
content = WANTS[who] in proposal
feedback = {
    "expert": who,
    "score": 90 if content else 30,
    "reason": "it says what I need to know" if content else f"it says nothing about '{WANTS[who]}'",
}
output = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], f"feedback_{who}.json")
output.write_text(json.dumps(feedback, indent=2), encoding="utf-8")
print(json.dumps({"result": feedback["reason"]}))
