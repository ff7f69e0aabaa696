"""The backend developer: judges the requirements first, and builds only with what can be built."""

import json
import os
import pathlib
import re

requirements = pathlib.Path(os.environ["AGENTTALK_INPUTS"], "requirements", "requirements.md")
text = requirements.read_text(encoding="utf-8")


def issue(severity, category, section, description, suggestion):
    """An issue in the form that the writer of the requirements gets."""
    return {
        "severity": severity,
        "category": category,
        "description": description,
        "location": f"requirements.md#{section}",
        "suggestion": suggestion,
    }


def judgement():
    """How good the requirements are, and everything that is wrong with them at once."""
    issues = []
    if "/login" not in text:
        add = "define how to log in, register and reset a password"
        issues.append(issue("HIGH", "COMPLETENESS", "login", "logging in is not defined", add))
    if "Parameters:" not in text:
        add = "name the parameters for pages, order and filters"
        issues.append(issue("MEDIUM", "CLARITY", "parameters", "how products are searched is not clear", add))
    if "## Errors" not in text:
        add = "say what every error looks like"
        issues.append(issue("MEDIUM", "COMPLETENESS", "errors", "there are no rules for errors", add))
    score = 100 - sum(30 if each["severity"] == "HIGH" else 20 for each in issues)
    reason = "it cannot be built: half of the interface is missing" if issues else "it can be built"
    return {"score": score, "decision": "REJECT" if issues else "ACCEPT", "reason": reason, "issues": issues}


if os.environ["AGENTTALK_MODE"] == "validate":
    print(json.dumps(judgement()))
else:
    routes = re.findall(r"^- ([A-Z]+) (\S+)$", text, re.MULTILINE)
    output = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "routes.json")
    output.write_text(json.dumps([{"method": method, "path": path} for method, path in routes]), encoding="utf-8")
    print(json.dumps({"result": f"{len(routes)} routes"}))
