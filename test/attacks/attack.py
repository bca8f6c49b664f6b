"""Owns: what an attack is: who connects how, the bytes, and what the server has to say to them."""
import dataclasses

TIMEOUT = 1  # of the server, in seconds: what an attack has to meet is met while it is measured
ROUNDS = 1000  # of what is sent again and again: more than a connection survives
PROTOCOLS = ("http1", "tls", "websocket", "http2")


@dataclasses.dataclass
class Attack:
    name: str
    limit: str  # what stops it: names of the configuration, with commas between; "": a share of each loop iteration alone
    first: bytes
    parts: list
    # What has to come: statuses, alerts, codes of frames, counters of the server; "a|b" is one of both.
    expects: tuple
    cve: str = ""
    hold: bool = False  # the connection stays open behind the parts
    reads: bool = True
    pause: float = 0  # seconds between parts
    sip: int = 1 << 18  # bytes that it reads at once, and no more in a pause
    width: int = 1  # connections that one attacker has at once
    leaves: str = ""  # it does not wait for responses: "close", "reset" or "half_close" right behind the parts
    heard: bool = False  # before it leaves it waits for the first byte
    sources: int = 0  # addresses of 127.0.0.0/8 that it comes from, next to the generator's; 0: the generator's
    secure: bool = False  # in a TLS connection
    records: int = 1 << 14  # bytes of a TLS record of the client
    each_kib: int = 192  # memory that one of its connections may cost: twice what is kept while it waits (UVHTTP__HELD_MAX), and a request
    settings: dict = dataclasses.field(default_factory=dict)  # of the server
    arguments: tuple = ()  # of the server
    protocol: str = ""  # which table it is in, and what the others speak


def flood(data, before=b"", size=65536):
    """The same again and again, in parts of about `size` bytes."""
    return [before] + [data * max(1, size // len(data))] * ROUNDS


def drip(data, size=1):
    return [data[at : at + size] for at in range(0, len(data), size)]
