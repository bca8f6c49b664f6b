"""The machinery of ./dev attacks: what a server does not survive is noticed, by its verdict and not by whoever reads the table."""
import dataclasses
import os
import pathlib
import re
import sys

import pytest

import harness

pytestmark = [
    pytest.mark.serial,  # attackers need a share of the machine
    pytest.mark.skipif(bool(harness.sanitizer()), reason="attackers are not faster than a sanitizer is slow"),
    pytest.mark.skipif(harness.ENGINE == "epoll", reason="what is tested is the machinery: once is enough"),
]

# Memory and P99 of others are measured, which is for a machine that does nothing else.
measures = pytest.mark.skipif(not os.environ.get("UVHTTP_ATTACKS"), reason="by hand, with UVHTTP_ATTACKS=1: it measures")

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "test/attacks"))

import attackers
import relief
import run
import storm
from attack import Attack
from attacks import ATTACKS

POST = b"POST /body HTTP/1.1\r\nHost: a\r\n"


def attack(name, **changes):
    (one,) = [one for one in ATTACKS if one.name == name and one.protocol == changes.get("protocol", "http1")]
    return dataclasses.replace(one, **changes)


def suffer(one):
    """What no repetition excuses, and whether the P99 was too high. Attackers have their share of a machine that runs other tests, too."""
    found = run.suffer_once(harness.BUILD_DIR, harness.ENGINE, one, 2, compete=True)
    return list(run.faults(one, found)), found["slow"]


def unmet(what):
    return [f"no {what}"]


# --- servers that are weak on purpose ---


@measures
@pytest.mark.parametrize(
    "one, expected",
    [
        (attack("slow heads"), []),
        (attack("slow heads", settings={"connection_timeout": "never"}), unmet("timeouts_header")),
        (attack("bodies that do not come", settings={"body_timeout": "never"}), unmet("timeouts_body")),
        (attack("slow bodies", settings={"min_receive_rate": "never"}), unmet("slow_read")),
        (attack("a field without an end", settings={"headers_size_max": 1 << 20, "header_count_max": 1000}, parts=[b"b" * 8192] * 20),
         [*unmet("431"), *unmet("rejected_http_headers_too_large")]),
        (attack("idle connections", settings={}), unmet("connections_evicted")),
    ],
    ids=["not_weak", "heads", "bodies", "rates", "fields", "connections"],
)  # fmt: skip
def test_a_limit_that_is_off_is_noticed(one, expected):
    assert suffer(one)[0] == expected


@measures
def test_a_handshake_that_is_waited_for_is_noticed():
    assert suffer(attack("handshakes that do not come", protocol="tls"))[0] == []
    assert suffer(attack("handshakes that do not come", protocol="tls", arguments=("--handshake-timeout", "60")))[0] == unmet("timeouts_handshake")


@measures
def test_a_flood_of_fragments_without_a_limit_is_noticed():
    assert suffer(attack("fragments", protocol="websocket"))[0] == []
    loose = attack("fragments", protocol="websocket")
    assert suffer(dataclasses.replace(loose, first=loose.first.replace(b"/costly/ws", b"/tls/ws")))[0] == [*unmet("close 1009"), *unmet("rejected_ws_fragments")]


@measures
def test_memory_beyond_the_bound_is_noticed(sanitizer):
    hoard = attack("hoarded uploads", settings={"body_size_max": 1 << 30}, first=POST + b"Content-Length: 100000000\r\n\r\n", parts=[b"x" * 65536] * 100)
    faults, _ = suffer(hoard)
    assert sanitizer or f"memory above {run.memory_max(hoard)} KiB" in faults


@measures
def test_requests_of_others_that_fail_are_noticed():
    """The limit that is meant for the attackers meets the others."""
    faults, _ = suffer(attack("connections of few addresses", settings={"connections_per_address_max": 30}))
    assert faults == ["requests failed"]


@measures
def test_a_server_that_others_wait_for_is_noticed():
    blocking = Attack("blocking", "", b"", [b"GET /spin?us=10000 HTTP/1.1\r\nHost: a\r\n\r\n"] * 100, (), pause=0.2, protocol="http1")
    faults, slow = suffer(blocking)
    assert slow and not [fault for fault in faults if fault != "requests failed"]


def test_slow_rounds_count_when_two_of_three_are():
    def verdict(*slow):
        return run.judge(attack("slow heads"), [{"slow": one, "failed": 0, "memory": 0, "seen": {"timeouts_header": 1}} for one in slow])[0]

    assert verdict(True, True) == verdict(True, False, True) == ["P99"]
    assert verdict(False) == verdict(True, False, False) == []


def test_a_slow_round_is_inconclusive_if_its_control_is_as_slow():
    assert run.compare(["P99"], 7.0, control=3.0) == ["P99"]
    assert run.compare(["P99", "requests failed"], 7.0, control=4.0) == [run.INCONCLUSIVE, "requests failed"]
    assert run.compare(["requests failed"], 7.0, control=4.0) == ["requests failed"]
    assert [run.status(wrong) for wrong in ([], [run.INCONCLUSIVE], [run.INCONCLUSIVE, "P99"])] == [0, 4, 1]


@measures
def test_a_server_that_ends_is_noticed(capsys):
    killer = Attack("killer", "", b"POST /stop HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", [], (), protocol="http1")
    (wrong,) = run.suffer(harness.BUILD_DIR, harness.ENGINE, killer, 1, compete=True)
    assert wrong.startswith(("the server has ended", "no counters", "the others had no response", "the generator has no result"))
    assert wrong in capsys.readouterr().out


# --- relief ---


def exhaustion(name, **changes):
    (one,) = [one for one in relief.EXHAUSTIONS if one.name == name]
    return dataclasses.replace(one, **changes)


def relieve(one):
    return relief.suffer(harness.BUILD_DIR, harness.ENGINE, one)


@pytest.mark.parametrize("one", relief.EXHAUSTIONS, ids=lambda one: one.name)
def test_full_service_is_back_after_relief(one, monkeypatch):
    """Within a time that a machine which runs other tests can keep: the second is the table's."""
    monkeypatch.setattr(relief, "RELIEF_MS", 5000)
    assert relieve(one) == []


def test_what_is_not_exhausted_is_noticed():
    assert relieve(exhaustion("connections", settings={"max_connections": 1000})) == ["not exhausted", "no connections_waited"]


def test_relief_that_does_not_come_is_noticed(monkeypatch):
    def for_good(server):
        held = relief.hold(server, 200)
        yield
        yield
        relief.let_go(held)

    monkeypatch.setattr(relief, "GIVEN_UP_SECONDS", 0.5)
    assert relieve(exhaustion("connections", exhaust=for_good)) == ["late"]


# --- the table ---


def words(path, pattern):
    return set(re.findall(pattern, (ROOT / path).read_text(), re.M))


def test_every_limit_of_the_table_has_a_name():
    known = words("examples/uvhttp.yaml", r"^ *(\w+):") | words("src/http2/http2.h", r"^ +uint32_t (\w+);")
    known |= words("include/uvhttp/websocket.h", r"^ +uint(?:32|64)_t (\w+);") | words("include/uvhttp/rate_limit.h", r"^ +\w+ (\w+);")
    known |= words("include/uvhttp/form.h", r"^ +size_t (\w+);") | {"RLIMIT_NOFILE", "uvhttp_set_allocator"}
    named = {name for one in [*ATTACKS, *relief.EXHAUSTIONS] for name in one.limit.split(", ") if name}
    assert named <= known, named - known


def test_every_counter_of_the_table_exists():
    known = words("src/obs/counters.h", r"X\((\w+),") | {f"rejected_{name.lower()}" for name in words("include/uvhttp/error.h", r"X\((\w+),")}
    codes = re.compile(r"\d{3}|close \d{4}|(GOAWAY|RST_STREAM) [A-Z_]+")
    named = {name for one in ATTACKS for names in one.expects for name in names.split("|")} | {one.counter for one in relief.EXHAUSTIONS}
    unknown = {name for name in named if name not in known and not codes.fullmatch(name)}
    assert not unknown
    assert all(name.split()[1] in attackers.CODES for name in named if name.startswith(("GOAWAY", "RST_STREAM")))


def test_names_of_attacks_are_unique():
    names = [(one.protocol, one.name) for one in ATTACKS]
    assert len(names) == len(set(names))


# --- a storm of resets ---


def test_every_reset_of_a_storm_is_counted_and_none_is_logged():
    assert storm.count_exactly(harness.BUILD_DIR, harness.ENGINE, 1500) == []


def test_a_reset_that_is_not_counted_is_seen():
    before, after = {"resets_idle": 5}, {"resets_idle": 10, "resets_reading": 4}
    assert list(storm.differences(before, after, 9, 9, 0, 0)) == []
    assert list(storm.differences(before, after, 10, 10, 5000, 0)) == ["9 resets were counted", "5000 bytes of log"]
    assert list(storm.differences(before, after, 8, 9, 0, 0)) == ["8 connections were accepted"]
