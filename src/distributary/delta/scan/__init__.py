"""Reading rows: which files, then Arrow batches from them; and the change data feed."""
