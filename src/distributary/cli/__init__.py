"""The command line: main and one file per noun."""
