"""What the engine needs of the world: databases, folders, processes, git, forges, HTTP."""
