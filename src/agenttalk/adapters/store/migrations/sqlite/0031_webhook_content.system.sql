-- What was signed is the body alone: by it a delivery is known again, whatever its headers say.
CREATE INDEX webhooks_content ON webhooks (source, sha256, received_at) WHERE kind = 'forge';
