"""The Delta transaction log and what follows from it; no framework, no Spark."""
