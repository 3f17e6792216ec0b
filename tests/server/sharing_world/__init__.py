"""A small world to share: tables, shares, recipients with tokens of every kind, and servers over them."""
