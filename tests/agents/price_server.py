"""A small MCP server over standard input and output, with one tool."""

import json
import sys

TOOL = {"name": "price_list", "description": "The prices.", "inputSchema": {"type": "object", "properties": {}}}

for line in sys.stdin:
    asked = json.loads(line)
    version = (asked.get("params") or {}).get("protocolVersion")
    answers = {
        "initialize": {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "shop", "version": "1"},
        },
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "forty each"}]},
    }
    if "id" in asked:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()
