"""Transactions on a Delta table: staging, conflict checks, and the commit itself."""
