"""The product manager: forgets half of it in the first round, and repairs exactly the issues of the review."""

import json
import os
import pathlib

SECTIONS = {
    "products": "## Products\n\n- GET /products\n",
    "parameters": "Parameters: page, sort, category\n",
    "login": "## Login\n\n- POST /login\n- POST /register\n- POST /password-reset\n",
    "errors": "## Errors\n\nEvery error is JSON with `code` and `message`.\n",
}

sections = ["products"]
feedback = os.environ.get("AGENTTALK_FEEDBACK")
if feedback:
    issues = json.loads(pathlib.Path(feedback).read_text(encoding="utf-8"))["issues"]
    asked_for = {issue["location"].partition("#")[2] for issue in issues}
    sections += [name for name in SECTIONS if name in asked_for]
    result = f"fixed: {', '.join(sorted(asked_for))}"
else:
    result = "the requirements are complete"

text = "# The shop's interface\n\n" + "\n".join(SECTIONS[name] for name in sections)
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "requirements.md").write_text(text, encoding="utf-8")
print(json.dumps({"result": result}))
