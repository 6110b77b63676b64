"""Malformed entries among the messages that workers have taken, and keys of a wrong type: set aside, nothing stops."""

import json

import pytest
from farm_bench import Bench, until

from tasks.store.set_aside import LONGEST_TEXT, SetAside
from workers.celery_ext.unacked import entry_error

ENVELOPE = {
    "body": "W10=",
    "headers": {},
    "properties": {
        "delivery_info": {"exchange": "cpu", "routing_key": "cpu"},
        "delivery_tag": "tag",
        "body_encoding": "base64",
    },
}
MALFORMED = {
    "not JSON": b"\xff{",
    "not a list": b"{}",
    "too short": json.dumps([ENVELOPE, "cpu"]).encode(),
    "no message": json.dumps(["message", "cpu", "cpu"]).encode(),
    "no headers": json.dumps([ENVELOPE | {"headers": None}, "cpu", "cpu"]).encode(),
    "an unknown exchange": json.dumps([ENVELOPE, "nowhere", "nowhere"]).encode(),
}


def set_aside(bench: Bench) -> SetAside:
    return SetAside(bench.broker)


@pytest.mark.parametrize("entry", MALFORMED.values(), ids=MALFORMED.keys())
def test_an_entry_that_kombu_could_not_return_is_recognized(entry: bytes) -> None:
    assert entry_error(entry, lambda exchange, _: [exchange] if exchange == "cpu" else [])


def test_a_well_formed_entry_is_left_alone() -> None:
    assert entry_error(json.dumps([ENVELOPE, "cpu", "cpu"]).encode(), lambda *_: ["cpu"]) is None


def test_malformed_entries_are_set_aside_by_workers_that_run_and_by_one_that_starts(bench: Bench) -> None:
    # Given malformed entries whose time is over, a tag without an entry, and a message of a dead worker without a time
    for tag, entry in MALFORMED.items():
        bench.broker.hset("unacked", tag, entry)
        bench.broker.zadd("unacked_index", {tag: 1})
    bench.broker.zadd("unacked_index", {"no entry": 1})
    bench.let_end("lost", "next")
    bench.app.send_task("cpu.hold", ("lost",))
    message = bench.broker.rpop("cpu")
    bench.broker.hset("unacked", "orphan", json.dumps([json.loads(message), "cpu", "cpu"]))
    # When a worker starts, then they are set aside, with their reasons, and the message of the dead worker is done
    worker = bench.start_worker("cpu")
    until(lambda: bench.ended("lost") == 1)
    until(lambda: bench.broker.hlen("unacked") + bench.broker.zcard("unacked_index") == 0)
    found = set_aside(bench).entries()
    assert {entry.place for entry in found} == {"unacked"}
    assert (len(found), len({entry.reason for entry in found})) == (len(MALFORMED), len(MALFORMED) - 1)
    # When one comes while it runs, then it goes the same way, and the worker takes the next message
    bench.broker.hset("unacked", "later", "{")
    bench.broker.zadd("unacked_index", {"later": 1})
    until(lambda: set_aside(bench).count() == len(MALFORMED) + 1)
    bench.app.send_task("cpu.hold", ("next",))
    until(lambda: bench.ended("next") == 1)
    assert worker.alive
    assert "Traceback" not in bench.log("cpu").read_text()


def test_keys_of_a_wrong_type_are_set_aside(bench: Bench) -> None:
    # Given keys of the broker that are no hash, no sorted set, no list and no set
    keys = ("unacked", "unacked_index", "cpu", "_kombu.binding.cpu")
    for key in keys:
        bench.broker.set(key, "something")
    # When a worker starts, then they have other names, and it takes what is sent
    bench.let_end("first", "second", "third")
    bench.start_worker("cpu")
    bench.app.send_task("cpu.hold", ("first",))
    until(lambda: bench.ended("first") == 1)
    assert {entry.place for entry in set_aside(bench).entries()} == set(keys)
    # When a queue becomes one while it runs, then it connects again and goes on
    until(lambda: bench.broker.hlen("unacked") == 0)
    for key in ("unacked", "cpu"):
        bench.broker.delete(key)
        bench.broker.set(key, "something")
    until(lambda: bench.broker.type("cpu") != "string")
    bench.app.send_task("cpu.hold", ("second",))
    until(lambda: bench.ended("second") == 1)
    assert set_aside(bench).clear() == len(keys) + 2
    assert not bench.broker.keys("whetstone:set_aside*")


def test_a_refused_message_is_set_aside(bench: Bench) -> None:
    bench.start_worker("cpu")
    bench.app.send_task("cpu.unknown", ("run",))
    bench.broker.lpush("cpu", "no JSON " + "x" * 2 * LONGEST_TEXT)
    until(lambda: set_aside(bench).count() == 2)
    latest, first = set_aside(bench).entries()
    assert "cpu.unknown" in first.reason and "cpu.unknown" in first.text
    assert "not JSON" in latest.reason and len(latest.text) == LONGEST_TEXT
