"""Numbered forward migrations. The schema of a database is the sum of those that were applied to it.

`migrations/<dialect>/NNNN_what.sql` is applied to every database, `NNNN_what.system.sql` to the system's
only, `NNNN_what.board.sql` to the boards' only. One that was released is never changed again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from agenttalk.adapters.store.dialect import DatabaseConnection, DialectName
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, MachineError

Part: TypeAlias = Literal["system", "board"]
"""What a database is for."""

FOLDER = Path(__file__).parent / "migrations"
_TABLE = """
CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    hash TEXT NOT NULL
)
"""


class Migration(NamedTuple):
    """One step of the schema."""

    number: int
    name: str
    text: str

    @property
    def hash(self) -> str:
        """What the step was when it was applied."""
        return wire.sha256(self.text.encode())


def migrations(dialect: DialectName, part: Part, folder: Path = FOLDER) -> list[Migration]:
    """Load the migrations of a database, in order."""
    found = []
    for path in sorted((folder / dialect).glob("*.sql")):
        number, _, rest = path.name.partition("_")
        _, _, scope = rest.removesuffix(".sql").partition(".")
        if scope in {"", part}:
            found.append(Migration(int(number), path.stem, path.read_text(encoding="utf-8")))
    return found


def migrate(connection: DatabaseConnection, steps: list[Migration], where: str) -> None:
    """Bring a database up to date in one transaction, or refuse one that does not fit this release."""
    connection.begin()
    try:
        connection.lock("migrations")
        connection.execute(_TABLE, {})
        done = connection.execute("SELECT number, name, hash FROM migrations ORDER BY number", {})
        require_known([(number, name, digest) for number, name, digest in done], steps, where)
        for step in steps[len(done) :]:
            connection.execute(step.text, {})
            values = f"({step.number}, '{step.name}', '{step.hash}')"
            connection.execute(f"INSERT INTO migrations VALUES {values}", {})  # noqa: S608 - our own file names
        connection.commit()
    finally:
        connection.rollback()


def require_known(done: list[tuple[int, str, str]], steps: list[Migration], where: str) -> None:
    """Refuse a database with steps that this release does not have, or has otherwise."""
    for step, (number, name, digest) in zip(steps, done, strict=False):
        if (step.number, step.hash) != (number, digest):
            raise MachineError(
                Code.STORE_INCOMPATIBLE,
                f"{where}: migration {name} is not the {step.name} of this release",
                hint="use the release that made the database, or restore the migration file as it was",
            )
    if len(done) > len(steps):
        raise MachineError(
            Code.STORE_INCOMPATIBLE,
            f"{where}: was made by a newer AgentTalk (migration {done[len(steps)][1]} is unknown here)",
            hint="install that release or a newer one",
        )
