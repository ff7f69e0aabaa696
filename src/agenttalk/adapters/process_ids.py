"""Whether a process id is in use, for systems and questions where /proc does not help."""

from __future__ import annotations

import os


def is_alive(pid: int) -> bool:
    """Return whether there is such a process, of any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it is there, and belongs to another user
    return True
