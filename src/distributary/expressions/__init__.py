"""SQL expressions as the protocols need them: parse, bind, prune, evaluate."""
