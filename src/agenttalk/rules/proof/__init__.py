"""What evidence proves: verdicts, rework, releases, staleness. `done` is the one verdict."""
