"""SQL expressions as the two protocols need them: one tree, its parsers, pruning and evaluation."""
