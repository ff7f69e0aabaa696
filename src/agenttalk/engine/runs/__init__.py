"""The dispatcher: leases tasks, runs turns, concludes them."""
