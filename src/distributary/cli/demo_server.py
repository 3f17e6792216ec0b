"""The server of the demo: set up by the same commands that a provider types, run as a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from distributary.cli.demo_output import print_step

if TYPE_CHECKING:
    from rich.console import Console

USUAL_PORT = 8080
START_SECONDS = 60


class DemoServer:
    """A sharing server in a folder: two shares of the same tables, and a recipient of each."""

    def __init__(self, place: Path, console: Console) -> None:
        self._place = place
        self._console = console
        self._settings = place / "distributary.yaml"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = USUAL_PORT
        self.profile = place / "acme.share"
        self.local_profile = place / "bistro.share"

    @property
    def url(self) -> str:
        """Where recipients reach it."""
        return f"http://127.0.0.1:{self.port}/delta-sharing"

    def set_up(self, lake: Path, port: int | None) -> None:
        """Make the catalog, the shares and the recipients, with the commands that a provider would use."""
        print_step(self._console, "a sharing server", "two shares, two recipients; one sees one country")
        self.port = port or _free_port()
        self._run("init", str(self._place))
        self._run_here("config", "set", "port", str(self.port))
        self._run_here("config", "set", "admin_port", "0")
        self._run_here("share", "create", "sales", "--comment", "Orders of a small shop")
        self._run_here("share", "add-folder", "sales", str(lake))
        self._run_here("share", "create", "by_country")
        filtered = ("--as", "default.orders", "--partition", "country = recipient.country")
        self._run_here("share", "add-table", "by_country", str(lake / "orders"), *filtered)
        self._run_here("recipient", "create", "acme", "--grant", "sales", "--profile", str(self.profile))
        local = ("--prop", "country=FR", "--grant", "by_country", "--profile", str(self.local_profile))
        self._run_here("recipient", "create", "bistro", *local)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the server for as long as the block lasts."""
        log = (self._place / "server.log").open("wb")
        command = [sys.executable, "-m", "distributary", "serve", "--config", str(self._settings)]
        with log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            self._process = process
            try:
                self._await_ready(process)
                yield
            finally:
                process.terminate()
                process.wait(30)

    def wait(self) -> None:
        """Wait until the user stops it."""
        assert self._process is not None
        with suppress(KeyboardInterrupt):
            code = self._process.wait()
            raise click.ClickException(f"the server ended with {code}; see {self._place / 'server.log'}")

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5).close()
                return
            time.sleep(0.1)
        raise click.ClickException(f"the server did not start; see {self._place / 'server.log'}")

    def _run_here(self, *arguments: str) -> None:
        self._run(*arguments, "--config", str(self._settings))

    def _run(self, *arguments: str) -> None:
        """Run a command of ours, and show it as the user would type it in the folder."""
        from distributary.cli.main import cli

        shown = [argument for argument in arguments if argument not in ("--config", str(self._settings))]
        typed = subprocess.list2cmdline(shown).replace(f"{self._place}/", "")
        self._console.print(f"  $ distributary {typed}", soft_wrap=True, markup=False, style="dim")
        cli.main(list(arguments), standalone_mode=False)


def _free_port() -> int:
    """The usual port where it is free, else any."""
    for port in (USUAL_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return probe.getsockname()[1]
    raise click.ClickException("no port is free on this machine")
