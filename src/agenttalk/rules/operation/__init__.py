"""What operators are shown: metrics, notices, traces, what may be deleted."""
