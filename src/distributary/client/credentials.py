"""Who a client is: profiles from wherever they are kept, and the header that proves it to the server.

A profile comes from a file, an object store, a dict, JSON text, an open file or the environment
(``DELTA_SHARING_PROFILE``; ``DELTA_SHARING_ENDPOINT`` with ``DELTA_SHARING_BEARER_TOKEN``). Each kind of
profile has an auth flow: it puts the header on requests to the profile's own origin alone (CL-001), and
where tokens are asked for (OAuth), gets one, keeps it, and renews it before it ends; many threads that
need one wait for a single request. No secret is in a `repr` or an error (PF-009).
"""

from __future__ import annotations

import base64
import datetime
import os
import stat
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast
from urllib.parse import urlencode

import httpx2
import msgspec

from distributary.client.connection import ConnectionSettings, Origin, Retry, check_endpoint, origin_of
from distributary.client.connection import retry_after as asked_pause
from distributary.client.errors import ProfileWarning, TokenRequestError
from distributary.errors import MissingExtraError
from distributary.sharing.profile import (
    InvalidProfileError,
    JwtBearer,
    Profile,
    bearer_profile,
    parse_profile,
    read_profile,
)
from distributary.storage.object_store import open_store

PROFILE_VARIABLE = "DELTA_SHARING_PROFILE"
ENDPOINT_VARIABLE = "DELTA_SHARING_ENDPOINT"
TOKEN_VARIABLE = "DELTA_SHARING_BEARER_TOKEN"

_RENEW_SECONDS = 600
_WARN_DAYS = 7
_JWT_SECONDS = 120


class Readable(Protocol):
    """An open file."""

    def read(self) -> str | bytes:
        """Everything in it."""
        ...


ProfileSource: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Readable | Profile | None


def load_profile(source: ProfileSource = None) -> Profile:
    """The profile at a place, in a text, a dict or an open file; from the environment without a source."""
    if source is None:
        profile = _from_environment()
    elif isinstance(source, Profile):
        profile = source
    elif isinstance(source, Mapping):
        profile = parse_profile(msgspec.json.encode(dict(source)))
    elif isinstance(source, str | os.PathLike):
        profile = _from_place(os.fspath(source))
    else:
        profile = parse_profile(source.read())
    _warn_of_expiry(profile)
    return profile


def _from_environment() -> Profile:
    place = os.environ.get(PROFILE_VARIABLE)
    if place:
        return _from_place(place)
    endpoint, token = os.environ.get(ENDPOINT_VARIABLE), os.environ.get(TOKEN_VARIABLE)
    if endpoint and token:
        return parse_profile(msgspec.json.encode(bearer_profile(endpoint, token)), "environment")
    raise InvalidProfileError(
        f"no profile was given: pass the path of a profile file, or set {PROFILE_VARIABLE}, or "
        f"{ENDPOINT_VARIABLE} and {TOKEN_VARIABLE}"
    )


def _from_place(place: str) -> Profile:
    if place.lstrip().startswith("{"):
        return parse_profile(place)
    if "://" in place and not place.startswith("file://"):
        parent, _, name = place.rpartition("/")
        return parse_profile(open_store(parent).get(name), place)
    path = Path(place.removeprefix("file://")).expanduser()
    profile = read_profile(path)
    _warn_of_readers(path)
    return profile


def _warn_of_readers(path: Path) -> None:
    """Say where others can read the secret in a file (H5)."""
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        warnings.warn(
            f"{path} holds a secret and other users can read it: chmod 600 {path}",
            ProfileWarning,
            stacklevel=5,
        )


def _warn_of_expiry(profile: Profile) -> None:
    end = profile.expires_at
    if end is None:
        return
    left = end - datetime.datetime.now(datetime.UTC)
    if left < datetime.timedelta(days=_WARN_DAYS):
        state = "has expired" if left <= datetime.timedelta(0) else "will expire soon"
        warnings.warn(
            f"the token of {profile.endpoint} {state} ({end:%Y-%m-%d %H:%M} UTC): ask the provider for a new "
            "profile file",
            ProfileWarning,
            stacklevel=4,
        )


class ProfileAuth(httpx2.Auth):
    """The header Authorization, on requests to one origin only."""

    def __init__(self, origin: Origin, header: Callable[[], str], forget: Callable[[], bool]) -> None:
        self._origin = origin
        self._header = header
        self._forget = forget

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send with the header; once more with a new token where the server refuses the one kept."""
        if origin_of(str(request.url)) != self._origin:
            yield request
            return
        request.headers["Authorization"] = self._header()
        response = yield request
        if response.status_code == 401 and self._forget():
            response.read()
            request.headers["Authorization"] = self._header()
            yield request

    def __repr__(self) -> str:
        return f"ProfileAuth({self._origin})"


def profile_auth(profile: Profile, settings: ConnectionSettings, http: httpx2.Client) -> ProfileAuth:
    """The auth flow of a profile; `http` asks for tokens."""
    origin = check_endpoint(profile.endpoint, settings)
    match profile.auth_type:
        case "bearer_token":
            header = f"Bearer {profile.bearer_token}"
            return ProfileAuth(origin, lambda: header, lambda: False)
        case "basic":
            header = _basic(profile.username or "", profile.password or "")
            return ProfileAuth(origin, lambda: header, lambda: False)
        case "oauth_client_credentials":
            asking = _client_credentials(profile)
        case "oauth_jwt_bearer_private_key_jwt":
            asking = _jwt_bearer(cast("JwtBearer", profile.auth))
    check_endpoint(asking.endpoint, settings)
    tokens = TokenSource(asking, settings, http)
    return ProfileAuth(origin, tokens.header, tokens.forget)


class TokenQuestion(msgspec.Struct, frozen=True):
    """How a token is asked for; the body is made anew each time."""

    endpoint: str
    form: Callable[[], Mapping[str, str]]
    authorization: str | None = None

    def __repr__(self) -> str:
        return f"TokenQuestion({self.endpoint!r})"


class TokenAnswer(msgspec.Struct, frozen=True):
    """What a token endpoint answers; some write the number as a text."""

    access_token: str
    expires_in: float | str | None = None

    def __repr__(self) -> str:
        return "TokenAnswer(…)"


class TokenSource:
    """A token that is asked for once and again before it ends."""

    def __init__(self, question: TokenQuestion, settings: ConnectionSettings, http: httpx2.Client) -> None:
        self._question = question
        self._settings = settings
        self._http = http
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def header(self) -> str:
        """The header with a token that is still good for a while."""
        with self._lock:
            if not self._token or time.monotonic() >= self._renew_at:
                self._renew()
            return f"Bearer {self._token}"

    def forget(self) -> bool:
        """Drop a token that was refused; true, since another can be asked for."""
        with self._lock:
            self._token = ""
        return True

    def _renew(self) -> None:
        asked = time.monotonic()
        answer = self._ask()
        life = float(answer.expires_in) if answer.expires_in else 3600.0
        self._token = answer.access_token
        self._renew_at = asked + max(life - _RENEW_SECONDS, life / 2)

    def _ask(self) -> TokenAnswer:
        retry = Retry(self._settings)
        while True:
            pause = None
            try:
                response = self._post()
                if response.status_code == 200:
                    return _token_answer(response.content, self._question.endpoint)
                if response.status_code != 429 and response.status_code < 500:
                    raise _refused(response.status_code, self._question.endpoint)
                pause, problem = asked_pause(response.headers), f"status {response.status_code}"
            except httpx2.TransportError as error:
                problem = type(error).__name__
            if not retry.wait(pause):
                raise TokenRequestError(f"{self._question.endpoint} gave no token: {problem}")

    def _post(self) -> httpx2.Response:
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if self._question.authorization is not None:
            headers["Authorization"] = self._question.authorization
        body = urlencode(self._question.form()).encode()
        return self._http.post(self._question.endpoint, content=body, headers=headers)


def _refused(status: int, endpoint: str) -> TokenRequestError:
    return TokenRequestError(
        f"{endpoint} refused to give a token (status {status}): check the client id, secret or key and the "
        "scope of the profile"
    )


def _token_answer(body: bytes, endpoint: str) -> TokenAnswer:
    try:
        answer = msgspec.json.decode(body, type=TokenAnswer)
        float(answer.expires_in or 0)
        return answer
    except (msgspec.MsgspecError, ValueError):
        raise TokenRequestError(f"{endpoint} answered without an access_token") from None


def _basic(name: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


def _client_credentials(profile: Profile) -> TokenQuestion:
    form = {"grant_type": "client_credentials"}
    if profile.scope:
        form["scope"] = profile.scope
    authorization = _basic(profile.client_id or "", profile.client_secret or "")
    return TokenQuestion((profile.token_endpoint or "").rstrip("/"), lambda: form, authorization)


def _jwt_bearer(auth: JwtBearer) -> TokenQuestion:
    def form() -> Mapping[str, str]:
        grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
        return {"grant_type": grant, "assertion": _assertion(auth)}

    return TokenQuestion(auth.token_endpoint.rstrip("/"), form)


def _assertion(auth: JwtBearer) -> str:
    """A statement about the client, signed with its own key (A13)."""
    try:
        from joserfc import jwt  # noqa: PLC0415  # an extra
        from joserfc.jwk import ECKey, RSAKey  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("jwt", "a profile with a private key") from error
    now = int(time.time())
    claims: dict[str, Any] = {
        "aud": auth.issuer,
        "iss": auth.client_id,
        "iat": now,
        "exp": now + _JWT_SECONDS,
        "jti": str(uuid.uuid4()),
        "resource": auth.audience,
    }
    if auth.scope:
        claims["scope"] = auth.scope
    algorithm = auth.private_key.algorithm
    kind = ECKey if algorithm.startswith("ES") else RSAKey
    try:
        key = kind.import_key(Path(auth.private_key.private_key_file).expanduser().read_bytes())
        header = {"alg": algorithm, "kid": auth.private_key.key_id, "typ": "JWT"}
        return jwt.encode(header, claims, key, algorithms=[algorithm])
    except (OSError, ValueError, TypeError) as error:
        raise InvalidProfileError(
            f"{auth.private_key.private_key_file}: no key to sign with ({type(error).__name__})"
        ) from None
