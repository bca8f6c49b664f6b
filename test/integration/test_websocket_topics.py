"""Publish and subscribe over WebSocket: who gets what, in which order, in which coding, and what slow readers cost."""
import os
import threading

import pytest

import harness
from test_websocket import BINARY, CLOSE, TEXT, Raw, frame, start
from test_websocket import carrier, own_server  # noqa: F401 (fixtures)
from test_websocket import pytestmark  # noqa: F401
from test_websocket_deflate import OFFER, Packed


@pytest.fixture
def two_loops(tmp_path, carrier):
    one = start(tmp_path, carrier, loops=2)
    yield one
    one.stop()


def say(client, text, expected=b"ok"):
    client.send(frame(TEXT, text))
    if expected is not None:
        client.expect(TEXT, expected)


def subscriber(server, topic=b"t", target="/topic", **options):
    client = Raw(server, target, **options)
    say(client, b"+" + topic)
    return client


def test_subscribers_get_what_is_published(own_server):
    first, second, other = subscriber(own_server), subscriber(own_server), subscriber(own_server, b"u")
    publisher = Raw(own_server, "/topic")
    for text in (b"one", b"", b"three" * 100000):
        say(publisher, b"!t " + text, None)
        for client in (first, second):
            client.expect(TEXT, text[: len(text)])
    say(publisher, b"*t all")
    first.expect(TEXT, b"all")
    second.expect(TEXT, b"all")
    say(publisher, b"!nobody x", None)
    say(publisher, b"*nobody x")
    say(first, b"-t")
    say(first, b"-t", b"UVHTTP_E_NOT_FOUND")
    say(publisher, b"!t without the first", None)
    say(publisher, b"!u for the other", None)
    second.expect(TEXT, b"without the first")
    other.expect(TEXT, b"for the other")
    own_server.sync()
    assert first.connection.quiet() and publisher.connection.quiet()
    assert own_server.counter("ws_publications") == 6


def test_a_publisher_gets_its_own_only_if_it_is_asked_for(own_server):
    quiet, loud = subscriber(own_server), subscriber(own_server, target="/topic-self")
    say(quiet, b"!t from quiet", None)
    loud.expect(TEXT, b"from quiet")
    say(loud, b"!t from loud", None)
    loud.expect(TEXT, b"from loud")
    quiet.expect(TEXT, b"from loud")
    say(quiet, b"*t from the server", None)
    assert {quiet.read()[1], quiet.read()[1]} == {b"ok", b"from the server"}


def test_limits_of_topics_and_subscriptions(own_server):
    before = own_server.counter("rejected_limit")
    with Raw(own_server, "/topic") as client:
        for topic, response in ((b"a", b"ok"), (b"a", b"ok"), (b"b", b"ok"), (b"c" * 20, b"ok"), (b"d", b"UVHTTP_E_LIMIT"),
                              (b"", b"UVHTTP_E_INVALID"), (b"e" * 21, b"UVHTTP_E_INVALID")):
            say(client, b"+" + topic, response)
        say(client, b"-b")
        say(client, b"+d")
    for _ in range(2):  # those of a connection that has gone are free again
        with Raw(own_server, "/topic-self") as client:
            say(client, b"+1")
            say(client, b"+2")
            say(client, b"+3", b"UVHTTP_E_LIMIT")
        own_server.sync()
    assert own_server.counter("rejected_limit") == before + 3


def test_many_topics(own_server):
    with Raw(own_server, "/topic-skip") as publisher:
        clients = [subscriber(own_server, b"topic-%d" % i) for i in range(200)]
        for i in range(200):
            say(publisher, b"!topic-%d %d" % (i, i), None)
        for i, client in enumerate(clients):
            client.expect(TEXT, b"%d" % i)
            client.connection.close()
        own_server.sync()
        say(publisher, b"*topic-7 x")


def test_a_connection_that_closes_may_publish(own_server):
    listener = subscriber(own_server, b"goodbye")
    for end in ("close", "reset"):
        leaver = subscriber(own_server, b"goodbye")
        getattr(leaver.connection, end)()
        listener.expect(TEXT, b"bye")
    leaver = subscriber(own_server, b"goodbye")
    leaver.send(frame(CLOSE))
    leaver.expect_close(0)
    listener.expect(TEXT, b"bye")


def test_a_publication_is_compressed_for_those_who_can_read_it(own_server):
    plain = subscriber(own_server)
    clients = {}
    for target in ("/topic-deflate", "/topic-takeover", "/topic-narrow"):
        clients[target] = Packed(own_server, target)
        clients[target].send(frame(TEXT, b"+t"))
        assert clients[target].read_message()[:2] == (TEXT, b"ok")
    uncompressed = Raw(own_server, "/topic-deflate")
    say(uncompressed, b"+t")
    publisher = Raw(own_server, "/topic")
    for number in range(3):
        text = b"again and again " * 50
        say(publisher, b"!t " + text, None)
        plain.expect(TEXT, text)
        uncompressed.expect(TEXT, text)
        for target, client in clients.items():
            opcode, payload, packed = client.read_message()
            assert (opcode, payload) == (TEXT, text)
            assert packed == (target != "/topic-narrow")
        # The context of a connection continues as if it had not been there.
        for client in clients.values():
            client.send(frame(TEXT, b"=x the alphabet and abcdefghijklmnopqrstuvwxyz, abcdefghijklmnopqrstuvwxyz" * 3))
            assert client.read_message()[1].startswith(b"the alphabet and abc")
    say(publisher, b"!t " + (noise := os.urandom(3000).hex().encode()), None)
    for client in clients.values():
        assert client.read_message()[1] == noise


@pytest.mark.threads
def test_the_order_of_a_publisher_is_kept_on_all_loops(two_loops):
    clients = [subscriber(two_loops, target=("/topic", "/topic-deflate")[i % 2]) for i in range(20)]
    packed = [Packed(two_loops, "/topic-takeover") for _ in range(4)]
    for client in packed:
        client.send(frame(TEXT, b"+t"))
        assert client.read_message()[1] == b"ok"
    say(clients[0], b"#t", None)
    errors = []

    def read(client):
        try:
            for i in range(1000):
                payload = client.read_message()[1] if isinstance(client, Packed) else client.read()[1]
                assert payload == b"%-280d" % i
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read, args=(client,)) for client in clients + packed]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(60)
    assert not errors, errors[0]
    assert two_loops.counter("ws_publications") in (1000, 2000)


@pytest.mark.threads
def test_subscribers_come_and_go_while_threads_publish(two_loops):
    stay = subscriber(two_loops)
    for _ in range(3):
        say(stay, b"#t", None)
    for i in range(60):
        client = Raw(two_loops, "/topic")
        client.send(frame(TEXT, b"+t") + frame(TEXT, b"+u") + frame(TEXT, b"-t"))
        client.connection.reset() if i % 2 else client.connection.close()
    for _ in range(3000):
        stay.read()


@pytest.mark.parametrize("target,counter", [("/topic-skip", "ws_publications_skipped"), ("/topic-drop", "ws_subscribers_dropped")])
def test_a_subscriber_that_does_not_read_slows_nobody(own_server, target, counter):
    slow = subscriber(own_server, target=target, receive_buffer=4096)
    fast = subscriber(own_server)
    publisher = Raw(own_server, "/topic")
    for i in range(20):
        say(publisher, b"@t 1", None)
        fast.expect(BINARY, bytes(1 << 20))
    assert own_server.counter(counter) >= 1
    if target == "/topic-drop":
        assert own_server.counter(counter) == 1
        with pytest.raises(Exception):
            while True:
                slow.read()
    else:
        for _ in range(2):
            slow.expect(BINARY, bytes(1 << 20))
        say(slow, b"-unknown", None)  # what was queued has arrived completely, and it continues


def test_publications_that_wait_for_the_loop_are_bounded(own_server):
    client = subscriber(own_server, target="/topic-skip")
    publisher = Raw(own_server, "/topic")
    publisher.send(b"".join(frame(TEXT, b"@t 16") for _ in range(5)))  # one receive, one iteration: the fifth finds 64 MB waiting
    assert publisher.read()[1] == b"UVHTTP_E_LIMIT"
    harness.poll(lambda: own_server.counter("ws_publications_refused") >= 1)
    say(client, b"-t")


def test_a_server_that_stops_drops_what_is_on_its_way(tmp_path):
    server = start(tmp_path, 2)
    clients = [subscriber(server) for _ in range(10)]
    for _ in range(2):
        say(clients[0], b"#t", None)
    server.stop()


def test_memory_of_publications_is_given_back(own_server):
    clients = [subscriber(own_server) for _ in range(50)]
    publisher = Raw(own_server, "/topic")

    def publish_round(count):
        for _ in range(count):
            say(publisher, b"!t " + b"x" * 10000, None)
            for client in clients:
                client.read()

    publish_round(20)
    growth = own_server.memory_growth()
    publish_round(100)
    growth.stays_below(1 << 20)
