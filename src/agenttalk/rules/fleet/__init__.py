"""The fleet: which worker gets which task, whether a worker is there, and when it gets no more work."""
