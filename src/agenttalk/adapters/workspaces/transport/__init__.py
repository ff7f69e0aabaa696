"""Moves a commit to an agent elsewhere, and its tree back: what git's upload-pack and packs carry over HTTP."""
