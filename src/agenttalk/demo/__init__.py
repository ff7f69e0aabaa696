"""The demo: scenes that run the real code, and the agents of their teams."""
