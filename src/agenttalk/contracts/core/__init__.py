"""What all documents share: ids and hashes, strict JSON, canonical text, JSON Schemas, the layout of a root."""
