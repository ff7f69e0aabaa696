"""The trees that agents work on: a branch per plan, a private clone per attempt, sealed checkouts for checks."""
