"""Commands for questions, letters and logins of people."""
