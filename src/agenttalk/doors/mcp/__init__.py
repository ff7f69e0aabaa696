"""The MCP door: tools and resources, each of which is a request to the HTTP API with the caller's own token."""
