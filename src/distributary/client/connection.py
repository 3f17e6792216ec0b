"""How a client reaches servers: addresses it trusts, certificates, proxies, time-outs and retries.

Guarantees: a plain ``http`` endpoint is used on loopback only, unless it was allowed; link-local addresses
(where clouds keep their secrets) are never asked; a file is downloaded over ``https``, from the server's
own origin, or between loopback addresses (H1). Certificates are verified unless that was switched off,
which warns every time.
"""

from __future__ import annotations

import datetime
import email.utils
import functools
import ipaddress
import os
import random
import socket
import ssl
import time
import urllib.request
import warnings
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import httpx2
import msgspec

from distributary.client.errors import InsecureConnectionWarning, UntrustedAddressError
from distributary.errors import InvalidInputError

_LONGEST_PAUSE: Final = 20.0
_FIRST_PAUSE: Final = 0.25
_PORTS: Final = {"http": 80, "https": 443}


class ConnectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a client may do on the network, and how long it tries."""

    timeout: float = 60.0
    """Seconds without a byte after which a connection counts as broken."""
    retry_seconds: float = 120.0
    """How long one request is tried anew, pauses included, before its error is raised."""
    proxy: str | None = None
    """A proxy for everything; without one those of the environment are used."""
    ca_file: str | None = None
    """Certificates of authorities to trust instead of the system's."""
    verify: bool = True
    """Whether certificates are verified."""
    allow_http: bool = False
    """Whether an endpoint that is not on loopback may be plain http."""
    allow_private_hosts: bool = True
    """Whether addresses of private networks may be asked; servers that read shares say no."""
    user_agent: str | None = None
    """Put before the client's own name in the header User-Agent."""

    def ssl_context(self) -> ssl.SSLContext:
        """The certificates that count; warns where none do."""
        if not self.verify:
            warnings.warn(
                "TLS certificates are NOT verified (verify=False): anybody on the way can read the token "
                "and the data. Give ca_file= instead.",
                InsecureConnectionWarning,
                stacklevel=4,
            )
            return httpx2.create_ssl_context(verify=False)
        if self.ca_file is None:
            return httpx2.create_ssl_context()
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise InvalidInputError(f"ca_file {self.ca_file} cannot be used: {error}") from error


class Origin(msgspec.Struct, frozen=True):
    """Scheme, host and port: whom a token may be shown to."""

    scheme: str
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine, by its name or literal address."""
        return _is_loopback(self.host)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@functools.lru_cache(maxsize=1024)
def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _literal(host)
    return address is not None and address.is_loopback


@functools.lru_cache(maxsize=1024)
def _origin(scheme: str, netloc: str) -> Origin:
    parts = urlsplit(f"{scheme}://{netloc}")
    if scheme not in _PORTS or not parts.hostname:
        raise ValueError(scheme)
    return Origin(scheme, parts.hostname.lower(), parts.port or _PORTS[scheme])


def origin_of(url: str) -> Origin:
    """The origin of an http or https URL; anything else is not trusted."""
    try:
        parts = urlsplit(url)
        return _origin(parts.scheme.lower(), parts.netloc)
    except ValueError:
        scheme = url.partition(":")[0][:20]
        raise UntrustedAddressError(
            f"a URL with {scheme!r} is neither http nor https: not followed"
        ) from None


def check_endpoint(url: str, settings: ConnectionSettings) -> Origin:
    """Refuse an endpoint to which a token must not be sent."""
    origin = origin_of(url)
    if origin.scheme != "https" and not origin.is_loopback and not settings.allow_http:
        raise UntrustedAddressError(
            f"{origin} is plain http: everybody on the way could read the token. Use https, or pass "
            "allow_http=True where the network is your own"
        )
    check_host(origin, settings)
    return origin


def check_file_url(url: str, endpoint: Origin, settings: ConnectionSettings) -> Origin:
    """Refuse the URL of a data file that a server must not make its recipients ask for."""
    origin = origin_of(url)
    beside = origin.is_loopback and endpoint.is_loopback
    if not (origin.scheme == "https" or origin == endpoint or beside or settings.allow_http):
        raise UntrustedAddressError(
            f"the server gave a file URL at {origin}, which is plain http: not followed. The provider must "
            "serve files over https"
        )
    if origin != endpoint:
        check_host(origin, settings)
    return origin


def check_host(origin: Origin, settings: ConnectionSettings) -> None:
    """Refuse addresses where only this machine's own secrets are, and private ones where asked to."""
    proxied = proxy_for(origin, settings) is not None
    for address in _addresses(origin.host, origin.port, resolve=not proxied):
        if address.is_link_local:
            raise UntrustedAddressError(f"{origin} is a link-local address, where no sharing server lives")
        if not settings.allow_private_hosts and not address.is_global:
            raise UntrustedAddressError(
                f"{origin} is an address of a private network, which is not allowed here"
            )


def proxy_for(origin: Origin, settings: ConnectionSettings) -> str | None:
    """The proxy for an origin: the one of the settings, otherwise the environment's."""
    if settings.proxy is not None:
        return None if origin.is_loopback else settings.proxy
    if origin.is_loopback:
        return None
    proxies = _environment_proxies(tuple(sorted(_proxy_variables().items())))
    found = proxies.get(origin.scheme) or proxies.get("all")
    return None if found is None or urllib.request.proxy_bypass(origin.host) else found


class Retry:
    """The pauses between attempts of one request: exponential, with jitter, within a total time."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._deadline = time.monotonic() + settings.retry_seconds
        self._pause = _FIRST_PAUSE

    def wait(self, asked: float | None = None) -> bool:
        """Pause before another attempt; false, without a pause, where no time is left for one.

        `asked` is what the server asked for: never less than that is waited.
        """
        pause = random.uniform(self._pause / 2, self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        if asked is not None:
            pause = asked + random.uniform(0, _FIRST_PAUSE)
        if time.monotonic() + pause > self._deadline:
            return False
        time.sleep(pause)
        return True


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How many seconds a server asks to wait, as a number or as a date."""
    text = headers.get("retry-after")
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.datetime.now(datetime.UTC)).total_seconds())


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return None


@functools.lru_cache(maxsize=1024)
def _addresses(
    host: str, port: int, *, resolve: bool
) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, ...]:
    address = _literal(host)
    if address is not None:
        return (address,)
    if not resolve:
        return ()
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return tuple(ipaddress.ip_address(str(info[4][0]).split("%")[0]) for info in found)


def _proxy_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}


@functools.lru_cache(maxsize=8)
def _environment_proxies(_variables: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return urllib.request.getproxies()
