"""One address of a Redis, as Celery and redis-py each want it."""

import pytest
import redis
from celery import Celery

from tasks.common.logs import redacted
from tasks.store.address import backend_url, broker_url, redis_url_of, store_url


def test_three_databases_follow_one_another() -> None:
    # Given an address with a database and a password, when each client reads its own form of it
    url = "redis://:secret@somewhere:6380/3"
    app = Celery(broker=broker_url(url), backend=backend_url(url))
    broker, backend = app.connection_for_write().info(), app.backend.connparams
    store = redis.ConnectionPool.from_url(store_url(url)).connection_kwargs

    # Then they use three databases in a row, and all know the password
    assert (int(broker["virtual_host"]), backend["db"], store["db"]) == (3, 4, 5)
    assert broker["password"] == backend["password"] == store["password"] == "secret"


def test_tls_is_checked_unless_the_address_says_otherwise() -> None:
    assert broker_url("rediss://somewhere/0") == "rediss://somewhere/0?ssl_cert_reqs=required"
    assert backend_url("rediss://somewhere/0?ssl_cert_reqs=none") == "rediss://somewhere/1?ssl_cert_reqs=none"


@pytest.mark.parametrize(
    "url",
    [
        *("http://u:s3cret@h", "unix://run/valkey.sock", "redis:///0", "redis://somewhere/first", "unix:///s?db=-1"),
        *("", "redis://[::1", "redis://h:port/0", "redis://h/0?foo=1"),
        # in a password that goes on in the address
        *("redis://h/0?password=s3cret&s3cret=1", "unix:///s?password=s3cret+&s3cret&db=1"),
    ],
)
def test_what_is_no_address_is_refused_by_all(url: str) -> None:
    for write in (broker_url, backend_url, store_url):
        with pytest.raises(ValueError, match=r"address|host|database|redis|option") as refused:
            write(url)
        assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("password", ["s3#cret", "s3/cret", "s3?cret=1", "s3#c@ret", "12/3#cret", "[s3cret"])
@pytest.mark.parametrize("form", ["redis://:{}@host:6379/0", "u:{}@host"])
def test_a_password_that_breaks_its_address_is_not_shown(password: str, form: str) -> None:
    url = form.format(password)
    try:
        assert store_url(url).count("@") == 1, "it was understood"
    except ValueError as error:
        said = str(error)
        assert ":***@host" in said and not [part for part in ("s3", "cret", "12") if part in said]
        assert "percent-encode" in said or "://" not in url
    # And no line of a log shows it
    assert "cret" not in redacted(url)


@pytest.mark.parametrize(
    ("url", "with_password"),
    [
        ("rediss://somebody@valkey/1", "rediss://somebody:a%2Fb@valkey/1"),
        ("redis://:known@valkey/0", "redis://:known@valkey/0"),
        ("unix:///run/valkey.sock?db=2", "unix:///run/valkey.sock?db=2&password=a%2Fb"),
    ],
)
def test_a_password_of_the_environment_joins_an_address_without_one(url: str, with_password: str) -> None:
    environment = {"WHETSTONE_REDIS_URL": url, "WHETSTONE_REDIS_PASSWORD": "a/b"}
    assert redis_url_of(environment) == with_password
    # and every client finds it there
    store = redis.ConnectionPool.from_url(store_url(with_password)).connection_kwargs
    assert store["password"] in ("a/b", "known")
