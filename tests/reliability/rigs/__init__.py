"""Rigs that break writers on purpose, and checkers that say what survived (RELIABILITY 1.6)."""
