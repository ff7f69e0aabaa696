"""Judges a JSON document by a JSON Schema, as a program of its own.

A pattern of the schema can take endless time on a crafted text, and nothing can interrupt the matching. So it runs in a
process that can be killed. Standard input is an object with `schema` and `document`; standard output is an array of
violations. It must not import our package, which takes longer to load.
"""

from __future__ import annotations

import json
import sys
from itertools import islice

MOST = 10
"""How many violations are reported."""


def find_violations(schema: object, document: object) -> list[str]:
    """Find the violations of a document. Raises any exception for a bad schema."""
    from jsonschema import Draft202012Validator, validators
    from referencing.jsonschema import EMPTY_REGISTRY

    kind = validators.validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    validator = kind(schema, registry=EMPTY_REGISTRY)  # without it, references would be fetched from the network
    return [f"{error.json_path}: {error.message[:200]}" for error in islice(validator.iter_errors(document), MOST)]


def main() -> None:
    """Run the program."""
    given = json.load(sys.stdin)
    try:
        violations = find_violations(given["schema"], given["document"])
    except Exception as error:  # noqa: BLE001 - after any error the document was not judged
        sys.exit(f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")
    json.dump(violations, sys.stdout)


if __name__ == "__main__":
    main()
