"""What the developer runs elsewhere: packs the code and puts it into the developer's outbox.

python3 deliver.py ROOT      deliver to the plan that runs in that root
python3 deliver.py --pack    only make delivery_package.zip, in the current folder
"""

import datetime
import hashlib
import io
import json
import pathlib
import sys
import zipfile

PLAN, TASK, OUTPUT = "tester-waits", "deliver", "delivery_package.zip"
CODE = """def price(count):
    cents = 40 * count
    return cents - cents // 10 if count >= 10 else cents
"""


def packed():
    """The package."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(zipfile.ZipInfo("price.py"), CODE)
    return data.getvalue()


def put(path, data):
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_bytes(data)
    beside.rename(path)


package = packed()
if sys.argv[1] == "--pack":
    put(pathlib.Path(OUTPUT), package)
    sys.exit()
outbox = pathlib.Path(sys.argv[1], "agents", "developer", "outbox", PLAN)
digest = hashlib.sha256(package).hexdigest()
envelope = {
    "schema_version": "1.0",
    "message_id": f"msg_{digest[:16]}",
    "plan_id": PLAN,
    "producer_agent_id": "developer",
    "type": "artifact",
    "created_at": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    "task_id": TASK,
    "output_name": OUTPUT,
    "payload": {"files": [{"path": OUTPUT, "sha256": f"sha256:{digest}"}]},
}
put(outbox / OUTPUT, package)  # the payload first, the envelope last: a reader of the envelope finds the payload
put(outbox / "artifact_delivery.msg.json", json.dumps(envelope).encode())
print(f"delivered to {outbox}")
