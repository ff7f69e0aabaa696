"""The reviewer: reads the diff, and lets nothing pass that still says TODO."""

from hands import FACTS, MARKER, forge, report

number, head = FACTS["pr_number"], FACTS["head_sha"]
diff = forge("GET", f"/pulls/{number}.diff")
added = [line for line in diff.splitlines() if line.startswith("+")]
if any("TODO" in line for line in added):
    review = {"event": "REQUEST_CHANGES", "body": f"price.py leaves a question open.\n\n{MARKER}", "commit_id": head}
    review["comments"] = [{"path": "price.py", "new_position": 2, "body": "What about less than nothing?"}]
else:
    review = {"event": "APPROVED", "body": f"Good.\n\n{MARKER}", "commit_id": head}
made = forge("POST", f"/pulls/{number}/reviews", review)
report(f"Read the whole diff of {head[:10]}: {review['event']}.", review={"id": made["id"], "verdict": made["state"]})
