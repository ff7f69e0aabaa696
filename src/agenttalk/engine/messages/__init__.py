"""The router: messages from outboxes to inboxes, dead letters, published files."""
