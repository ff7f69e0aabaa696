"""The backend developer: writes the code, from the prices that it was given."""

import json
import os
import pathlib

inputs = pathlib.Path(os.environ["AGENTTALK_INPUTS"])
[table] = (inputs / "prices").rglob("*.json")
prices = json.loads(table.read_text(encoding="utf-8"))
code = f"""PRICES = {prices!r}


def price(item, count):
    cents = PRICES[item] * count
    return cents - cents // 10 if count >= 10 else cents
"""
outputs = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
(outputs / "price.py").write_text(code, encoding="utf-8")
print('{"result": "price.py"}')
