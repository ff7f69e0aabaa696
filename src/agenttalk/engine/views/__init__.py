"""The views that doors show: plans, tasks, agents, ledger, feed. Views only read."""
