"""Schemas of Delta tables: types, their Arrow forms, column mapping, partition values, evolution."""
