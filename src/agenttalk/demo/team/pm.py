"""The product manager: writes requirements, or a second opinion."""

import os
import pathlib

outputs = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
if os.environ["AGENTTALK_TASK_ID"] == "second_opinion":
    (outputs / "opinion.md").write_text("The cases that fail have to hold first.\n", encoding="utf-8")
else:
    lines = [
        "# Requirements",
        "",
        "- The price of an item is taken from the price list.",
        "- Ten or more cost a tenth less.",
    ]
    (outputs / "requirements.md").write_text(
        "\n".join([*lines, "- An unknown item is an error.", ""]), encoding="utf-8"
    )
print('{"result": "written down"}')
