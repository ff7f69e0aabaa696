"""The limits of turns and days, and the monitor that stops a turn."""
