"""The developer: handles the plain cases first, and the others when the feedback names failed tests."""

import json
import os
import pathlib

PLAIN = '''"""What things cost."""


def price(count):
    """What so many pieces cost, in cents."""
    return 40 * count
'''
WHOLE = '''"""What things cost."""


def price(count):
    """What so many pieces cost, in cents; ten and more cost a tenth less."""
    if count < 0:
        raise ValueError("a count cannot be negative")
    cents = 40 * count
    return cents - cents // 10 if count >= 10 else cents
'''

feedback = os.environ.get("AGENTTALK_FEEDBACK")
issues = json.loads(pathlib.Path(feedback).read_text(encoding="utf-8"))["issues"] if feedback else []
pathlib.Path("price.py").write_text(WHOLE if issues else PLAIN, encoding="utf-8")
print(json.dumps({"result": f"fixed for {len(issues)} tests" if issues else "done, all tests pass"}))
