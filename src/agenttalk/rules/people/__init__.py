"""What a person's answer means, and what it proves."""
