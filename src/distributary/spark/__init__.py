"""Delta tables on Spark, with nothing but packages from PyPI; see `distributary.spark.session`."""
