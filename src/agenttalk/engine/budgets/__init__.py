"""What turns and days may cost, and the monitor that stops a turn."""
