"""Rules that every concept uses: paths and scopes, task states, tokens, redaction, HTTP addresses."""
