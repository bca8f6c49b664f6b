"""Traces: what a collector of OpenTelemetry gets for each request, contexts in and out, and a collector that fails."""
import http.server
import json
import math
import re
import subprocess
import threading
import time

import pytest

import harness
from collector import collector as make_collector
from harness import poll

pytestmark = pytest.mark.neutral

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"
MODES = ["loop", "worker", "deferred"]
if harness.build_option("BUILD_WITH_COROUTINES") == "ON":
    MODES.append("coroutine")


@pytest.fixture
def collector():
    with make_collector() as one:
        yield one


@pytest.fixture
def start(serve, collector):
    """Starts a server that traces."""

    def start_server(delay_ms=10, **fields):
        fields = {"trace": "true", "trace_endpoint": collector.url, "trace_delay_ms": delay_ms, **fields}
        return serve(settings=fields)

    return start_server


def counter(server, name):
    return server.counters()[name]


# --- what a span says ---


@pytest.mark.parametrize("mode", MODES)
def test_a_span_says_what_the_conventions_ask_for(start, collector, protocol, mode):
    server = start(trace_service="shop")
    before = time.time_ns()
    response = server.get(f"/trace/{mode}/7?secret=1", headers=[("User-Agent", "test/1")])
    assert response.status == 200
    trace_id, span_id, traceparent, sampled, *_ = response.text.split(" ")
    span = collector.span()
    assert (span.trace_id, span.span_id, span.parent_id) == (trace_id, span_id, "")
    assert traceparent == f"00-{trace_id}-{span_id}-01" and sampled == "1"
    assert span.name == f"GET /trace/{mode}/:id" and span.message.kind == span.message.SPAN_KIND_SERVER
    assert span.message.status.code == span.message.status.STATUS_CODE_UNSET
    start_ns, end_ns = span.message.start_time_unix_nano, span.message.end_time_unix_nano
    assert before - 1_000_000_000 < start_ns < end_ns < time.time_ns() + 1_000_000_000
    assert span.message.flags & 0x3FF == 0x101  # sampled; whether the parent is remote is known, and there is none
    own = {name: value for name, value in span.attributes.items() if not name.startswith("test.")}
    assert own == {
        "http.request.method": "GET",
        "http.route": f"/trace/{mode}/:id",
        "url.path": f"/trace/{mode}/7",
        "url.scheme": "http",
        "http.response.status_code": 200,
        "server.address": "test",
        "server.port": 80,
        "client.address": own["client.address"],
        "network.protocol.version": {"http1": "1.1", "http2": "2"}[protocol],
        "user_agent.original": "test/1",
    }
    assert own["client.address"].startswith("127.")
    added = {name: value for name, value in span.attributes.items() if name.startswith("test.")}
    assert added == {
        "test.mode": mode,
        "test.int": -(2**63),
        "test.double": 0.25,
        "test.infinity": -math.inf,
        "test.bool": True,
        "test.again": '"last"\n',
    }
    assert span.events == ["looked up"]
    assert start_ns <= span.message.events[0].time_unix_nano <= end_ns
    (resource,) = {one.resource.SerializeToString() for r in collector.requests() for one in r.resource_spans}
    assert b"service.name" in resource and b"shop" in resource
    assert set(collector.paths) == {("/v1/traces", "application/json")}


def test_a_request_with_a_body_is_one_span(start, collector):
    server = start()
    for mode in MODES:
        if mode != "deferred":
            assert server.get(f"/trace/{mode}/7", method="POST", body=b"x" * 100_000).status == 200
    spans = collector.spans(len(MODES) - 1)
    assert [span.attributes["test.mode"] for span in spans] == [mode for mode in MODES if mode != "deferred"]
    assert {span.name.split()[0] for span in spans} == {"POST"}


def test_errors_of_the_server_are_errors_and_others_are_not(start, collector):
    server = start()
    assert server.get("/trace/fail").status == 503
    assert server.get("/trace/loop/7", method="BREW").status == 200
    assert server.get("/trace/missing").status == 404
    failed, other, missing = collector.spans(3)
    assert failed.message.status.code == failed.message.status.STATUS_CODE_ERROR
    assert failed.attributes["error.type"] == "503"
    assert other.name == "HTTP /trace/loop/:id" and other.attributes["http.request.method"] == "_OTHER"
    assert other.attributes["http.request.method_original"] == "BREW" and "error.type" not in other.attributes
    assert missing.name == "GET" and "http.route" not in missing.attributes
    assert missing.message.status.code == missing.message.status.STATUS_CODE_UNSET


def test_a_span_has_its_maximum(start, collector):
    server = start()
    assert server.get("/trace/exceed").text == "UVHTTP_E_LIMIT UVHTTP_E_LIMIT UVHTTP_E_INVALID UVHTTP_E_INVALID"
    span = collector.span()
    added = {name: value for name, value in span.attributes.items() if name.startswith("test.")}
    assert added == {f"test.{i}": "x" * 1024 for i in range(32)}
    assert len(span.events) == 32
    assert (span.message.dropped_attributes_count, span.message.dropped_events_count) == (8, 8)


def test_a_client_that_goes_ends_the_span(start, collector):
    server = start()
    with server.connect() as connection:
        asked = connection.start("/later?ms=60000")
        poll(lambda: server.counter("deferred") >= 1)
        asked.cancel()
    span = collector.span("/later")
    assert span.attributes["error.type"] == "aborted" and "http.response.status_code" not in span.attributes
    assert span.message.status.code == span.message.status.STATUS_CODE_ERROR


# --- contexts ---


def test_a_request_continues_the_trace_of_its_sender(start, collector):
    server = start(trace_ratio=0)
    headers = [("traceparent", SAMPLED), ("tracestate", "rojo=1"), ("TraceState", "congo=2 , ,a@b=3")]
    text = server.get("/trace/loop/1", headers=headers).text
    span = collector.span()
    assert (span.trace_id, span.parent_id) == (TRACE, PARENT) and span.span_id not in (PARENT, "")
    assert span.message.trace_state == "rojo=1,congo=2,a@b=3" and text.endswith(" 1 rojo=1,congo=2,a@b=3")
    assert span.message.flags & 0x3FF == 0x301


def test_the_sender_decides_whether_it_is_sampled(start, collector):
    server = start(trace_ratio=1)
    text = server.get("/trace/loop/1", headers=[("traceparent", UNSAMPLED)]).text
    assert text.split()[2].startswith(f"00-{TRACE}-") and text.split()[2].endswith("-00") and text.split()[3] == "0"
    server.get("/trace/loop/2")
    assert collector.span().attributes["url.path"] == "/trace/loop/2"


@pytest.mark.parametrize(
    "headers",
    [
        [("traceparent", SAMPLED.upper())],
        [("traceparent", SAMPLED + "-00")],
        [("traceparent", SAMPLED), ("traceparent", SAMPLED)],
        [("tracestate", "rojo=1")],
    ],
)
def test_a_context_that_is_none_starts_a_new_trace(start, collector, headers):
    text = start().get("/trace/loop/1", headers=headers).text
    span = collector.span()
    assert span.trace_id != TRACE and span.parent_id == "" and span.message.trace_state == ""
    assert text.split()[0] == span.trace_id


def test_a_tracestate_that_is_malformed_is_left_out(start, collector):
    start().get("/trace/loop/1", headers=[("traceparent", SAMPLED), ("tracestate", "rojo=1"), ("tracestate", "Wrong")])
    span = collector.span()
    assert span.trace_id == TRACE and span.message.trace_state == ""


def test_the_ratio_is_a_share_of_new_traces(start, collector):
    server = start(trace_ratio=0.25)
    with server.connect() as connection:
        flags = [connection.get("/trace/loop/1").text.split()[2][-2:] for _ in range(400)]
        traces = [connection.get("/trace/loop/2").text.split()[0] for _ in range(100)]
    assert 50 < flags.count("01") < 160  # 100 +- 6 standard deviations
    assert len(set(traces)) == 100
    sampled = server.counter("trace_spans")
    assert len(collector.spans(flags.count("01"), "/trace/loop/1")) == flags.count("01") <= sampled


class Echo(http.server.BaseHTTPRequestHandler):
    """Tells which context it was sent."""

    def do_GET(self):
        body = f"{self.headers.get_all('traceparent')} {self.headers.get_all('tracestate')}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def other():
    server = http.server.ThreadingHTTPServer((harness.HOST, 0), Echo)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://{harness.HOST}:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("how", ["ask"] + (["ask_waiting"] if "coroutine" in MODES else []))
def test_a_request_of_the_client_carries_the_context(start, collector, other, how):
    server = start()
    text = server.get(f"/trace/{how}?url={other}", headers=[("traceparent", SAMPLED), ("tracestate", "a=1")]).text
    span = collector.span()
    assert text == f"['00-{TRACE}-{span.span_id}-01'] ['a=1']"
    if how == "ask":
        assert server.get(f"/trace/{how}?own=1&url={other}").text == "['mine'] None"


def test_without_traces_nothing_is_sent_or_shown(serve, other):
    server = serve("http_test_server")
    assert server.get(f"/trace/ask?url={other}", headers=[("traceparent", SAMPLED)]).text == "None None"
    assert server.get("/trace/loop/1").text == "UVHTTP_E_STATE"
    assert server.counter("trace_spans") == 0


# --- the collector fails ---


def delivered(server, count):
    poll(lambda: server.counter("trace_spans_exported") >= count)


@pytest.mark.http1("what is exported is the same")
def test_spans_go_in_batches(start, collector):
    server = start(delay_ms=300_000)
    with server.connect() as connection:
        for _ in range(20):
            connection.get("/trace/loop/1")
    assert collector.bodies == []
    server.stop()  # what waits is sent at the end
    assert len(collector.spans(20)) == 20 and len(collector.bodies) == 1


@pytest.mark.http1("what is exported is the same")
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_collector_is_asked_again(start, collector, status):
    collector.scripted = [(status, {"Retry-After": "1"}, b"")]
    server = start()
    server.get("/trace/loop/1")
    collector.spans(1)
    first, second = collector.times
    assert second - first > 0.9
    delivered(server, 1)
    assert server.counter("trace_export_retries") == 1 and server.counter("trace_spans_failed") == 0


@pytest.mark.http1("what is exported is the same")
def test_what_a_collector_refuses_is_lost_and_counted(start, collector):
    collector.scripted = [(400, {}, b"")]
    server = start(delay_ms=10)
    server.get("/trace/loop/1")
    poll(lambda: server.counter("trace_spans_failed") >= 1)
    server.get("/trace/loop/2")
    assert collector.span().attributes["url.path"] == "/trace/loop/2"
    poll(lambda: "spans are not delivered" in server.stderr() and "status 400" in server.stderr())  # the log has a thread of its own
    assert server.counter("trace_export_retries") == 0


@pytest.mark.http1("what is exported is the same")
def test_spans_that_a_collector_rejects_are_counted(start, collector):
    collector.scripted = [(200, {}, b'{"partialSuccess": {"rejectedSpans": "1", "errorMessage": "x"}}')]
    server = start()
    server.get("/trace/loop/1")
    poll(lambda: server.counter("trace_spans_failed") == 1)


@pytest.mark.http1("what is exported is the same")
def test_a_collector_that_does_not_respond_slows_nobody(start, collector):
    collector.gate.clear()
    server = start(trace_queue_size=65536)
    dropped = 0
    with server.connect() as connection:
        slowest = 0
        for _ in range(1000):
            begin = time.monotonic()
            assert connection.get("/trace/loop/1").status == 200
            slowest = max(slowest, time.monotonic() - begin)
        dropped = server.counter("trace_spans_dropped")
    assert dropped > 100 and slowest < 5
    collector.gate.set()
    kept = server.counter("trace_spans")
    assert kept + dropped >= 1000
    delivered(server, kept)
    assert len(collector.spans(1000 - dropped)) == 1000 - dropped


@pytest.mark.http1("what is exported is the same")
def test_a_collector_that_is_gone_does_not_hold_up_the_end(serve):
    port = harness.free_port()
    server = serve(settings={"trace": "true", "trace_endpoint": f"http://{harness.HOST}:{port}", "trace_delay_ms": 1})
    for _ in range(3):
        assert server.get("/trace/loop/1").status == 200
    begin = time.monotonic()
    server.stop()
    assert time.monotonic() - begin < 15


@pytest.mark.http1("no server runs")
@pytest.mark.parametrize("url", ["https://127.0.0.1:4318", "localhost:4318", "http://unix:/run/collector", ""])
def test_an_endpoint_that_the_client_cannot_reach_is_refused(url):
    command = [harness.TEST_PROGRAMS / "http_test_server", "--set", "trace=true", "--set", f"trace_endpoint={url}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2 and f'trace_endpoint is "{url}": ' in ended.stderr


# --- Server-Timing ---


def test_server_timing_says_where_the_time_went(serve):
    server = serve(settings={"server_timing": "true"})
    for mode in MODES:
        field = server.get(f"/trace/{mode}/1").header("Server-Timing")
        total, queue, handler = re.fullmatch(r"total;dur=([\d.]+), queue;dur=([\d.]+), handler;dur=([\d.]+)", field).groups()
        assert abs(float(total) - float(queue) - float(handler)) < 0.01 and 0 < float(total) < 20_000
        if mode in ("deferred", "coroutine"):
            assert float(handler) >= 1
    assert server.get("/missing").header("Server-Timing").startswith("total;dur=")
    assert server.get("/trace/loop/1").text == "UVHTTP_E_STATE"


# --- logs ---


def test_lines_of_the_logs_have_the_id(serve, collector, tmp_path):
    path = tmp_path / "access.log"
    fields = {"trace": "true", "trace_ratio": 0, "trace_endpoint": collector.url}
    server = serve("http_test_server", "--access-log", f"json:{path}", settings=fields)
    ids = {mode: server.get(f"/trace/{mode}/1").text.split()[0] for mode in MODES}
    lines = poll(lambda: (found := path.read_text().splitlines()) and len(found) >= len(MODES) and found)
    assert [json.loads(line)["trace_id"] for line in lines[: len(MODES)]] == list(ids.values())
    poll(lambda: server.stderr().count("in the handler of ") >= len(MODES) and server.stderr().endswith("\n"))  # by another thread
    for mode in MODES:
        (line,) = [line for line in server.stderr().splitlines() if f"in the handler of {mode}" in line]
        assert line.endswith(f" trace_id={ids[mode]}") == (mode != "deferred"), line  # a timer works for no request
    assert len(set(ids.values())) == len(MODES)


# --- the example ---


@pytest.mark.http1("a program, whatever it speaks")
def test_the_example(serve, collector):
    server = serve("tracing", collector.url)
    text = server.get("/orders/7").text
    span = collector.span("/orders/")
    assert text == f"trace {span.trace_id}\n" and span.name == "GET /orders/:id"
    assert span.attributes["order.id"] == "7" and span.events == ["order found"]
