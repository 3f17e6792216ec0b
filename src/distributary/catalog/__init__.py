"""Shares, schemas, tables, recipients, grants, tokens and audit; SQL lives only here."""
