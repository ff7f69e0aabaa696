"""The heartbeat: carries out commands that lie in an agent's inbox."""
