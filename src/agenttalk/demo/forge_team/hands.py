"""What the agents of this team share: asking the engine, asking the forge, git, and the action report."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request

TASK = os.environ["AGENTTALK_TASK_ID"]
HERE = f"{os.environ['AGENTTALK_API']}/api/projects/_toolchain/tasks/{TASK}"
FORGE = os.environ["FORGE_URL"]
TOKEN = os.environ.get("DEV_TOKEN") or os.environ["REVIEWER_TOKEN"]
"""This agent's own token. Neither the other's nor the engine's is here."""


def ask(method, url, body=None, *, authorization):
    """Send a request and return the JSON of the answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": authorization, "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method)) as answer:
        content = answer.read()
    return json.loads(content) if content.strip().startswith((b"{", b"[")) else content.decode()


def engine(method, path, body=None):
    """Send a request to the engine with the token of this attempt."""
    return ask(method, HERE + path, body, authorization="Bearer " + os.environ["AGENTTALK_TOKEN"])


def forge(method, path, body=None):
    """Send a request to the forge about the repository of the task."""
    return ask(method, f"{FORGE}/api/v1/repos/{FACTS['repo']}{path}", body, authorization="token " + TOKEN)


def report(body, **claims):
    """Write the action report with claims that the engine reads back."""
    said = {"author": ME, "comment_type": "action_report", "body": body, "claims": [{k: v} for k, v in claims.items()]}
    engine("POST", "/comments", said)
    print(body)


def git(*arguments, cwd):
    """Run git, and return what it printed."""
    who = ["-c", f"user.name={LOGIN}", "-c", f"user.email={LOGIN}@noreply.example.test", "-c", "gc.auto=0"]
    done = subprocess.run(["git", *who, *arguments], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def pushed(branch, files, message, *, base=None):
    """Commit files to a branch and push it with this agent's own token; returns the commit."""
    url = f"{FORGE}/{FACTS['repo']}.git".replace("://", f"://{LOGIN}:{TOKEN}@")
    with tempfile.TemporaryDirectory() as folder:
        git("clone", "-q", "--depth", "1", "--branch", base or branch, url, folder, cwd=folder)
        if base:
            git("switch", "-q", "-c", branch, cwd=folder)
        for name, text in files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        git("add", ".", cwd=folder)
        git("commit", "-q", "-m", message, cwd=folder)
        git("push", "-q", "origin", branch, cwd=folder)
        return git("rev-parse", "HEAD", cwd=folder)


PROMPT = sys.stdin.read()
MARKER = PROMPT.partition("as it is: `")[2].partition("`")[0]
"""The end of every text at the forge, so that agents do not trigger each other endlessly."""
OWN = engine("GET", "")
ME = OWN["assignee"]
ACTION = OWN["must_haves"]["action_type"]
FACTS = OWN["must_haves"]["context"]
LOGIN = ask("GET", f"{FORGE}/api/v1/user", authorization="token " + TOKEN)["login"]
