"""The lead: reads all feedback there is. The further the scores lie apart, the less the experts agree."""

import json
import os
import pathlib

inputs = pathlib.Path(os.environ["AGENTTALK_INPUTS"])
feedback = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(inputs.rglob("feedback_*.json"))]
scores = {each["expert"]: each["score"] for each in feedback}
objections = {each["expert"]: each["reason"] for each in feedback if each["score"] < 70}
agreement = 100 - (max(scores.values()) - min(scores.values()))

report = {"experts": len(scores), "scores": scores, "agreement": agreement, "objections": objections}
output = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "consensus.json")
output.write_text(json.dumps(report, indent=2), encoding="utf-8")
why = "; ".join(f"{who}: {reason}" for who, reason in objections.items()) or "all of them are content"
print(json.dumps({"result": f"{len(scores)} experts were heard", "score": agreement, "score_explanation": why}))
