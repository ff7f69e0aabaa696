"""The front-end developer: makes a style sheet that follows the design at every width."""

import json
import os
import pathlib

design = json.loads(pathlib.Path(os.environ["AGENTTALK_INPUTS"], "design", "design.json").read_text(encoding="utf-8"))
widths = sorted(design["breakpoints"], key=lambda width: -width["up_to"])
rules = [f"main {{ columns: {design['columns']} }}"]
rules += [f"@media (max-width: {each['up_to']}px) {{ main {{ columns: {each['columns']} }} }}" for each in widths]
output = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "page.css")
output.write_text("\n".join(rules) + "\n", encoding="utf-8")
print(json.dumps({"result": f"a page for {len(rules)} widths"}))
