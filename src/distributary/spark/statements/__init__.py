"""SQL statements about Delta tables: read here, carried out here, with every expression left to Spark."""
