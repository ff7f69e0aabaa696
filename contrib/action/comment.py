"""Writes the result of a run as one comment on a pull request: made once, and updated by later runs.

Works with the APIs of GitHub, Gitea and Forgejo, which are the same here, and needs nothing but Python.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

MARK = "<!-- agenttalk-prove -->"
LONGEST = 60_000
"""Characters of a comment; GitHub takes 65,536."""
ROBOTS = frozenset({"github-actions[bot]", "gitea-actions", "forgejo-actions"})
"""Accounts of the tokens that jobs get. They cannot ask for their own name everywhere."""
PAGES = 50


def call(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Call the API, and return its answer. Raises urllib.error.URLError."""
    request = urllib.request.Request(  # noqa: S310 - the address is the forge's own
        f"{os.environ['GITHUB_API_URL'].rstrip('/')}{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"token {os.environ['TOKEN']}",
            "Accept": "application/json",
            "Content-Type": "application/json",
        },
        method=method,
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
        return json.load(answer)


def find_own_names() -> frozenset[str]:
    """Return the accounts whose comment may be updated: that of the token, and those of jobs."""
    try:
        return ROBOTS | {str(call("GET", "/user")["login"])}
    except (urllib.error.URLError, KeyError, ValueError):
        return ROBOTS


def find_comment(repository: str, number: str) -> int | None:
    """Find the comment of an earlier run. One of another account with our mark is not ours."""
    own, seen = find_own_names(), set()
    for page in range(1, PAGES):
        path = f"/repos/{repository}/issues/{number}/comments?per_page=100&limit=50&page={page}"
        comments = call("GET", path)
        new = [each for each in comments if each["id"] not in seen]  # Gitea lists all of them on every page
        for each in new:
            if str(each.get("body", "")).startswith(MARK) and each["user"]["login"] in own:
                return int(each["id"])
        if not new:
            break
        seen |= {each["id"] for each in new}
    return None


def main() -> int:
    """Write the comment."""
    page = Path(sys.argv[1]).read_text(encoding="utf-8")
    body = f"{MARK}\n{page}"
    if len(body) > LONGEST:
        body = f"{body[:LONGEST]}\n\n… (the rest is in the summary of the job)\n"
    repository, number = os.environ["GITHUB_REPOSITORY"], os.environ["PULL_REQUEST"]
    try:
        known = find_comment(repository, number)
        if known is None:
            call("POST", f"/repos/{repository}/issues/{number}/comments", {"body": body})
        else:
            call("PATCH", f"/repos/{repository}/issues/comments/{known}", {"body": body})
    except urllib.error.HTTPError as error:
        sys.stderr.write(f"the forge answered {error.code}: {error.read(300).decode(errors='replace')}\n")
        return 1
    except urllib.error.URLError as error:
        sys.stderr.write(f"the forge does not answer: {error.reason}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
