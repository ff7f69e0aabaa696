"""Changes to a repository in which nothing was set up: made until a check proves them, or proven as they are."""
