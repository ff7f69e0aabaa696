"""Judges a JSON document by a JSON Schema, as a program of its own.

A pattern of the schema may take for ever on a text that somebody chose for it, and nothing can interrupt that. So
this runs in a process that can be killed. On standard input: an object with `schema` and `document`. On standard
output: an array of what is wrong. It must not import our package, which takes longer to load.
"""

from __future__ import annotations

import json
import sys
from itertools import islice

MOST = 10
"""How many violations are told."""


def find_violations(schema: object, document: object) -> list[str]:
    """What is wrong with the document. Raises whatever is wrong with the schema."""
    from jsonschema import Draft202012Validator, validators
    from referencing.jsonschema import EMPTY_REGISTRY

    kind = validators.validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    validator = kind(schema, registry=EMPTY_REGISTRY)  # else references would be fetched
    return [f"{error.json_path}: {error.message[:200]}" for error in islice(validator.iter_errors(document), MOST)]


def main() -> None:
    """The program."""
    given = json.load(sys.stdin)
    try:
        found = find_violations(given["schema"], given["document"])
    except Exception as error:  # noqa: BLE001 - whatever it is, the document was not judged
        sys.exit(f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
