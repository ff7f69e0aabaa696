"""What evidence proves: checks, verdicts, rework, releases, staleness. `done` is the one verdict."""
