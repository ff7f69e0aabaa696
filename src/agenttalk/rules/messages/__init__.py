"""How messages are routed, archived and read, and when leases end."""
