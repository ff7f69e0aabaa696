"""PostgreSQL's own programs: a dump of our schemas, all of one moment, and bringing it back."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from agenttalk.adapters.store.root import open_postgres
from agenttalk.contracts.errors import Code, MachineError, UsageError

SCHEMAS: Final = ("system", "mail", "toolchain", "projects")
_VARIABLES: Final = {
    "host": "PGHOST", "hostaddr": "PGHOSTADDR", "port": "PGPORT", "dbname": "PGDATABASE", "user": "PGUSER",
    "password": "PGPASSWORD", "passfile": "PGPASSFILE", "sslmode": "PGSSLMODE", "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY", "sslrootcert": "PGSSLROOTCERT", "service": "PGSERVICE", "options": "PGOPTIONS",
    "connect_timeout": "PGCONNECT_TIMEOUT",
}  # fmt: skip
"""Part of a URL → its variable. Other users can read a program's arguments, but not its variables."""


def dump(url: str, target: Path) -> None:
    """Write our schemas into a file, as they are at one moment. Raises UsageError without `pg_dump`."""
    schemas = [f"--schema={name}" for name in SCHEMAS if open_postgres(url, name).has_ledger()]
    if not schemas:
        raise UsageError(Code.FILE_UNREADABLE, "the PostgreSQL database holds no AgentTalk", hint="check store.url")
    _run("pg_dump", url, "--format=custom", "--no-owner", "--no-privileges", f"--file={target}", *schemas)


def load(url: str, source: Path) -> None:
    """Bring a dump back, all of it or nothing. Raises UsageError where there is an AgentTalk already."""
    there = [name for name in SCHEMAS if open_postgres(url, name).has_ledger()]
    if there:
        message = f"the PostgreSQL database holds an AgentTalk already (schema {', '.join(there)})"
        raise UsageError(Code.FILE_UNWRITABLE, message, hint="name an empty database in AGENTTALK__STORE__URL")
    _run("pg_restore", url, "--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges", str(source))


def _run(program: str, url: str, *arguments: str) -> None:
    path = shutil.which(program)
    if path is None:
        raise UsageError(
            Code.NAME_UNKNOWN,
            f"{program} is not installed, and a PostgreSQL store is kept by it",
            hint="install PostgreSQL's client programs, of the server's version or newer",
        )
    variables = _environment(url)
    database = [f"--dbname={variables['PGDATABASE']}"] if program == "pg_restore" else []
    ended = subprocess.run(  # noqa: S603 - the program of that name, and words of our own
        [path, *database, *arguments], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        said = ended.stderr.strip() or f"it ended with {ended.returncode}"
        raise MachineError(Code.STORE_UNAVAILABLE, f"{program}: {said[:2000]}", hint="look at the server and its log")


def _environment(url: str) -> dict[str, str]:
    from psycopg import conninfo

    said = conninfo.conninfo_to_dict(url)
    unknown = sorted(said.keys() - _VARIABLES.keys())
    if unknown:
        hint = "leave it out of the URL for the backup, or set its variable of libpq"
        raise UsageError(Code.FIELD_VALUE, f"store.url says {', '.join(unknown)}, which pg_dump is not told", hint=hint)
    found = {_VARIABLES[name]: str(value) for name, value in said.items() if value is not None}
    return {"PGDATABASE": found.get("PGUSER", ""), **found}
