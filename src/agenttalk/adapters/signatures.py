"""Ed25519 keys of workers: made, kept in a file, used to sign, and signatures checked."""

from __future__ import annotations

import base64
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from agenttalk.contracts.errors import Code, MachineError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class WorkerKey:
    """The private key of a worker."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @classmethod
    def load(cls, path: Path) -> WorkerKey:
        """Read a key from its file, or make it there, where only its owner can read it."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if path.exists():
            return cls(Ed25519PrivateKey.from_private_bytes(path.read_bytes()))
        private = Ed25519PrivateKey.generate()
        descriptor = os.open(path.with_suffix(".new"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(private.private_bytes_raw())
            file.flush()
            os.fsync(file.fileno())
        path.with_suffix(".new").rename(path)
        return cls(private)

    @property
    def public(self) -> str:
        """Return the public key, as documents have it."""
        return base64.urlsafe_b64encode(self._private.public_key().public_bytes_raw()).decode().rstrip("=")

    def sign(self, data: bytes) -> bytes:
        """Sign data."""
        return self._private.sign(data)


@lru_cache(maxsize=4096)
def is_signed(public_key: str, data: bytes, signature: bytes) -> bool:
    """Whether data was signed with the private part of a key.

    Answers are kept, because a worker shows the same token for half an hour, with every sync.
    """
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        hint = "pip install 'agenttalk[worker]'"
        raise MachineError(Code.NAME_UNKNOWN, "the package cryptography is not installed", hint=hint) from error
    try:
        Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(public_key + "=")).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True
