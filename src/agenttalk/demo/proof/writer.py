"""A writer who forgets the price, until the builder rejects the text."""

import os
import pathlib

text = "# Prices\n\nOne item has a price.\n"
if "no price" in pathlib.Path(os.environ["AGENTTALK_COMMAND"]).read_text(encoding="utf-8"):
    text += "It is 40 cents, and two cost 80.\n"
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "spec.md").write_text(text, encoding="utf-8")
print("The specification is complete.")
