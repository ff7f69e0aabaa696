"""The validator of the gate "security": scans the program and names the hash of exactly the scanned file."""

import hashlib
import json
import os
import pathlib
import zipfile

program = pathlib.Path(os.environ["AGENTTALK_INPUTS"], "program", "shop.pyz")
with zipfile.ZipFile(program) as archive:
    lines = [line for name in archive.namelist() for line in archive.read(name).decode("utf-8").splitlines()]
found = [line for line in lines if "PASSWORD" in line]
result = {
    "schema_version": "1.0",
    "gate": "security",
    "decision": "REJECT" if found else "PASS",
    "subject": {"name": "shop.pyz", "sha256": f"sha256:{hashlib.sha256(program.read_bytes()).hexdigest()}"},
    "produced_by": "security",
}
output = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "security_gate_result.json")
output.write_text(json.dumps(result), encoding="utf-8")
print(json.dumps({"result": f"{len(found)} secrets in {len(lines)} lines"}))
