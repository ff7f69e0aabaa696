"""How hard the random tests try: `AGENTTALK_TEST_EFFORT=10` runs ten times the cases."""

from __future__ import annotations

import os

EFFORT = int(os.environ.get("AGENTTALK_TEST_EFFORT", "1"))
