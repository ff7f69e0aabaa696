"""The database expert: turns a price list into a table."""

import csv
import json
import os
import pathlib

inputs = pathlib.Path(os.environ["AGENTTALK_INPUTS"])
[price_list] = (inputs / "price_list.csv").rglob("*.csv")
with price_list.open(encoding="utf-8", newline="") as file:
    prices = {row["item"]: int(row["cents"]) for row in csv.DictReader(file)}
outputs = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
(outputs / "prices.json").write_text(json.dumps(prices, sort_keys=True), encoding="utf-8")
print(json.dumps({"result": f"{len(prices)} prices"}))
