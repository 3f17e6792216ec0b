"""Object stores and file systems: the only package that knows them."""
