"""The address of the farm's Redis or Valkey, without a client of it: light processes read one too.

`WHETSTONE_REDIS_URL` is `redis://`, `rediss://` (TLS) or `unix:///path/of/the/socket?db=n`.  Celery's messages lie in
database n, Celery's results in n + 1 and the store in n + 2.  A password may be kept out of the address: it is then the
secret `WHETSTONE_REDIS_PASSWORD`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from tasks.common.logs import redacted, register_secret, secret

ENVIRONMENT_VARIABLE = "WHETSTONE_REDIS_URL"
PASSWORD_VARIABLE = "WHETSTONE_REDIS_PASSWORD"
DEFAULT = "redis://127.0.0.1:6379/0"
_BROKER, _BACKEND, _STORE = 0, 1, 2  # added to the address's database
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")
OPTIONS = ("db", "username", "password", *_TLS_OPTIONS, "ssl_ca_path", "ssl_check_hostname")


class AddressError(ValueError):
    """The address of a Redis or Valkey that is none; says why in one line."""


def redis_url_of(environment: Mapping[str, str], configured: str = "") -> str:
    """The address that is `configured`, or that an environment names, or the usual one on this machine.

    One without a password gets the environment's.
    """
    url = configured or environment.get(ENVIRONMENT_VARIABLE) or DEFAULT
    password = secret(PASSWORD_VARIABLE, environment)
    try:
        parts, _ = _parse(url)
    except ValueError as error:
        raise AddressError(str(error) if configured else f"{ENVIRONMENT_VARIABLE}: {error}") from None
    if known := password_in(url):
        register_secret(known)
        return url
    if not password:
        return url
    if parts.scheme == "unix":
        return f"{url}{'&' if parts.query else '?'}{urlencode({'password': password})}"
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))


def password_in(url: str) -> str:
    """The password in an address, "" for none."""
    try:
        parts = urlsplit(url)
        return unquote(parts.password or "") or _query(parts).get("password", "")
    except ValueError:
        return ""


def broker_url(url: str) -> str:
    """As kombu writes it."""
    return _for_celery(url, _BROKER)


def backend_url(url: str) -> str:
    """As Celery writes it."""
    return _for_celery(url, _BACKEND)


def store_url(url: str) -> str:
    """As redis-py writes it."""
    return _for_redis(url, _STORE)


def queues_url(url: str) -> str:
    """The address of Celery's messages, as redis-py writes it."""
    return _for_redis(url, _BROKER)


def _for_redis(url: str, offset: int) -> str:
    parts, database = _parse(url)
    if parts.scheme == "unix":
        return f"unix://{parts.path}?{urlencode({**_query(parts), 'db': database + offset})}"
    return _tcp(parts, database + offset)


def _for_celery(url: str, offset: int) -> str:
    parts, database = _parse(url)
    if parts.scheme == "unix":
        options = {key: value for key, value in _query(parts).items() if key != "db"}
        user, password = (quote(options.pop(name, ""), safe="") for name in ("username", "password"))
        who = f"{user}:{password}@" if password else ""  # in the query Celery would pass it over
        return f"redis+socket://{who}{parts.path}?{urlencode({'virtual_host': database + offset, **options})}"
    return _tcp(parts, database + offset)


def _tcp(parts: SplitResult, database: int) -> str:
    query = _query(parts)
    query.pop("db", None)
    if parts.scheme == "rediss" and not any(option in query for option in _TLS_OPTIONS):
        query["ssl_cert_reqs"] = "required"  # Celery refuses a rediss address that does not say which it is
    return urlunsplit((parts.scheme, parts.netloc, f"/{database}", urlencode(query, safe="/", quote_via=quote), ""))


def _parse(url: str) -> tuple[SplitResult, int]:
    shown = repr(redacted(url))
    try:
        parts = urlsplit(url)
        is_sound = parts.port is None or parts.port >= 0
    except ValueError:
        is_sound = False
    # The rest of a password with a "/", "?" or "#" is read as path, query or fragment.
    if not is_sound or parts.fragment or (parts.scheme != "unix" and "@" in parts.path + parts.query):
        raise ValueError(f"it cannot be parsed (in a password, percent-encode what is no letter or digit): {shown}")
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise ValueError(f"not a redis://, rediss:// or unix:// address: {shown}")
    if parts.scheme == "unix" and (parts.netloc or not parts.path.startswith("/")):
        raise ValueError(f"the address of a socket is unix:///path?db=n, three slashes: {shown}")
    if parts.scheme != "unix" and not parts.hostname:
        raise ValueError(f"no host in {shown}")
    if unknown := sorted(set(_query(parts)) - set(OPTIONS)):
        if "password" in _query(parts):
            raise ValueError(f"it has an unknown option (in a password, percent-encode &, = and +): {shown}")
        raise ValueError(f"{unknown[0]!r} is no option of an address ({', '.join(OPTIONS)}): {shown}")
    number = _query(parts).get("db") or ("" if parts.scheme == "unix" else parts.path.strip("/")) or "0"
    if not re.fullmatch(r"\d+", number):
        raise ValueError(f"the database is a number, not {number!r}: {shown}")
    return parts, int(number)


def _query(parts: SplitResult) -> dict[str, str]:
    return dict(parse_qsl(parts.query, keep_blank_values=True))
