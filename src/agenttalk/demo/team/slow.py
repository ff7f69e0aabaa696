"""Builds the page of the demo in the browser: slow, and not always right."""

import json
import os
import pathlib
import sys
import time

task = os.environ["AGENTTALK_TASK_ID"]
outputs = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
pace = float(os.environ.get("AGENTTALK_DEMO_PACE", "1"))
texts = {
    "outline": ("outline.md", "# Outline\n\n- What the shop sells\n- What it costs\n- Where it is\n"),
    "copy": ("copy.md", "# Apples and pears\n\nFresh every morning. An apple is 40 cents.\n"),
    "layout": ("layout.md", "A title, one heading, the text, a map.\n"),
    "photos": ("photos.txt", "apple.jpg\npear.jpg\nshop.jpg\n"),
    "publish": ("announcement.md", "The page is ready.\n"),
    "proofread": ("faults.json", "[]\n"),
}
time.sleep(pace * {"outline": 1, "copy": 3, "layout": 2, "photos": 4, "page": 3, "links": 5}.get(task, 2))
if task in texts:
    name, text = texts[task]
    (outputs / name).write_text(text, encoding="utf-8")
if task == "gallery":
    sys.exit("photos/apple.jpg is not a photograph")
told = {"result": f"{task} is done."}
if task == "page":
    again = "AGENTTALK_FEEDBACK" in os.environ
    heading = "<h1>Apples and pears</h1>" if again else "<p>Apples and pears</p>"
    page = f"<!doctype html>\n<title>The shop</title>\n{heading}\n<p>Fresh every morning.</p>\n"
    pathlib.Path("index.html").write_text(page, encoding="utf-8")
    told["result"] = "The page is built, with title and heading."
if task == "proofread":
    told |= {"score": 90, "score_explanation": "one comma"}
print(json.dumps(told))
