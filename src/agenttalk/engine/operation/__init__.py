"""The engine as a service: its loops, schedules, notifications, traces, fsck."""
