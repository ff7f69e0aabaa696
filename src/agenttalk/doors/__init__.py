"""How people and programs reach the engine: command line, HTTP, pages, MCP, Python."""
