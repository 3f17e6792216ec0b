"""`distributary serve`: the sharing server, for the configured catalog or for a folder of tables."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.catalog_options import load
from distributary.errors import MissingExtraError

if TYPE_CHECKING:
    from distributary.server.settings import Settings
    from distributary.server.settings_file import LoadedSettings


@click.command(short_help="Serve shares, or the tables below a folder, to recipients.")
@click.argument(
    "folder", metavar="[FOLDER]", required=False, type=click.Path(file_okay=False, path_type=Path)
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of settings, ours or the reference server's. Default: ./distributary.yaml.",
)
@click.option("--host", help="Address of the public listener.")
@click.option("--port", type=int, help="Port of the public listener; 0 takes a free one.")
@click.option("--admin-host", help="Address of the admin listener.")
@click.option("--admin-port", type=int, help="Port of the admin listener; 0 takes a free one.")
@click.option("--workers", type=int, help="Worker processes.")
@click.option("--public-url", help="URL by which recipients reach the server, without the prefix.")
@click.option("--tls-cert", type=click.Path(dir_okay=False), help="File of the certificate chain (PEM).")
@click.option("--tls-key", type=click.Path(dir_okay=False), help="File of its private key (PEM).")
@click.option(
    "--allow-plain-http",
    is_flag=True,
    default=None,
    help="Serve without TLS beyond loopback (behind a proxy).",
)
@click.option(
    "--profile",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With FOLDER: the profile file for recipients; its token is used again while valid.",
)
def serve(folder: Path | None, config: Path | None, profile: Path | None, **flags: Any) -> None:
    """Run the sharing server until it is stopped.

    With FOLDER every Delta table below it is shared, now and as tables come and go, and a profile file for
    clients is written. Without it the shares, recipients and grants of the catalog are served.

    \b
    Examples:
      distributary serve ./lake --profile lake.share
      distributary serve --workers 4 --tls-cert server.pem --tls-key server.key --host 0.0.0.0
      distributary serve --config delta-sharing-server.yaml
    """
    if importlib.util.find_spec("granian") is None:
        raise MissingExtraError("server", "Serving")
    loaded = load(config, {_KEYS.get(name, name): value for name, value in flags.items()})
    if folder is None and profile is not None:
        raise click.UsageError("--profile goes with FOLDER; profiles of recipients come from `recipient`.")
    if folder is not None:
        _serve_folder(loaded.settings, folder, profile)
    else:
        _serve_catalog(loaded)


_KEYS = {"tls_cert": "tls.certificate", "tls_key": "tls.key"}


def _serve_catalog(loaded: LoadedSettings) -> None:
    from distributary.server import runner

    settings = runner.prepared(loaded.settings)
    if loaded.is_reference_file and loaded.file is not None:
        from distributary.server.reference_shares import take_over

        take_over(loaded.file, settings)
    runner.serve(settings, on_start=_announcement(settings))


def _serve_folder(settings: Settings, folder: Path, profile: Path | None) -> None:
    from distributary.server import runner
    from distributary.server.served_folder import ServedFolder, folder_settings

    settings = runner.prepared(folder_settings(settings, folder))
    served = ServedFolder(folder, settings, _say)
    file = profile or settings.key_path.with_name("profile.share")
    served.prepare(file)
    served.follow()
    announce = _announcement(settings)

    def started() -> None:
        announce()
        tables = served.tables()
        if not tables:
            _say(f"No Delta table below {folder} yet; those that appear will be served.")
        else:
            _say(f"Try: delta_sharing.load_as_pandas('{file}#{tables[0].full_name}')")

    try:
        runner.serve(settings, on_start=started)
    finally:
        served.stop()


def _announcement(settings: Settings) -> Callable[[], None]:
    def announce() -> None:
        _say(f"Serving at {settings.endpoint}/ with {settings.workers} worker(s); stop with Ctrl-C.")
        _say(f"Health and metrics: http://{settings.admin_host}:{settings.admin_port}/metrics")

    return announce


def _say(text: str) -> None:
    click.echo(text, err=True)
