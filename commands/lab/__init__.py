"""Runs the papers' small systems: their figures, identities and a ledger of claims."""
