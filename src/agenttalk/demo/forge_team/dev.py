"""The developer: does issues, repairs what is red, makes the changes that were asked for, merges, and answers."""

from hands import ACTION, FACTS, MARKER, forge, pushed, report

FIRST = "def price(count):\n    return 40 * cuont\n"
RUNS = "def price(count):\n    return 40 * count  # TODO: what about less than nothing?\n"
GOOD = 'def price(count):\n    if count < 0:\n        raise ValueError("less than nothing")\n    return 40 * count\n'


def issue_assigned():
    number = FACTS["issue_number"]
    branch = FACTS["branch"]
    sha = pushed(branch, {"price.py": FIRST}, f"The price (#{number})", base="main")
    body = {"title": "WIP: The price", "body": f"Closes #{number}\n\n{MARKER}", "head": branch, "base": "main"}
    pull = forge("POST", "/pulls", body)["number"]
    report(f"Branch {branch}, code pushed, pull request #{pull} opened.", pull_request=pull, push=sha)


def ci_failure():
    """Fix the red build, and mark the pull request as ready for review."""
    sha = pushed(FACTS["branch"], {"price.py": RUNS}, "The build is green")
    forge("PATCH", f"/pulls/{FACTS['pr_number']}", {"title": "The price"})
    forge("POST", f"/pulls/{FACTS['pr_number']}/requested_reviewers", {"reviewers": ["agent-reviewer"]})
    report("Read the log, fixed the name, pushed, asked for a review.", push={"sha": sha})


def review_result():
    number = FACTS["pr_number"]
    if FACTS["result"] == "APPROVED":
        forge("POST", f"/pulls/{number}/merge", {"Do": "merge", "head_commit_id": FACTS["head_sha"]})
        report(f"Merged #{number}.", merged=number)
    else:
        sha = pushed(FACTS["branch"], {"price.py": GOOD}, "A count is never negative")
        report("Fixed the one point and pushed.", push=sha)


def mention():
    said = {"body": f"40 cents each.\n\n{MARKER}"}
    comment = forge("POST", f"/issues/{FACTS['number']}/comments", said)["id"]
    report("Answered with a comment.", comment={"id": comment})


globals()[ACTION]()
