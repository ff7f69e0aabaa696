"""The designer: designs for one big screen, until the feedback names others.

With the argument `stubborn` it never does.
"""

import json
import os
import pathlib
import sys

design = {"title": "Product", "columns": 3}
if "AGENTTALK_FEEDBACK" in os.environ and "stubborn" not in sys.argv:
    design["breakpoints"] = [{"up_to": 600, "columns": 1}, {"up_to": 1200, "columns": 2}]
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "design.json").write_text(json.dumps(design), encoding="utf-8")
print('{"result": "the design is finished"}')
