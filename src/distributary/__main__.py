"""`python -m distributary`: the command line, where no script of that name is on the path."""

from distributary.cli.main import main

main()
