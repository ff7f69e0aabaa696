"""How commands and promises are made, validated and wrapped."""
