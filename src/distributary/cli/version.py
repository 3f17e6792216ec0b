"""`distributary version`: the versions of this package and of what decides how tables are read."""

from __future__ import annotations

import platform
from importlib import metadata

import click

import distributary

LIBRARIES = ("pyarrow", "obstore", "msgspec", "pyroaring")


@click.command(short_help="Print the version, and those of the libraries below.")
@click.option("--short", is_flag=True, help="Only the version of distributary.")
def version(short: bool) -> None:
    """Print the version of distributary, of Python and of the libraries that read tables.

    \b
    Examples:
      distributary version
      distributary version --short
    """
    if short:
        click.echo(distributary.__version__)
        return
    click.echo(f"distributary {distributary.__version__}")
    click.echo(f"python {platform.python_version()}")
    for library in LIBRARIES:
        click.echo(f"{library} {metadata.version(library)}")
