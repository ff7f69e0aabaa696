"""Code forges: their webhooks in, their API out."""
