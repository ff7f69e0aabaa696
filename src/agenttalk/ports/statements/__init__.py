"""The named statements of the store, and the rows that they return. Their texts are in `adapters/store/sql`."""
