"""Owns: a collector of OpenTelemetry that keeps what it gets, and refuses what a test wants refused."""
import base64
import contextlib
import http.server
import json
import threading
import time

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

import harness

ID_FIELDS = ("traceId", "spanId", "parentSpanId")


def to_protobuf_json(value):
    """OTLP's JSON mapping is that of Protobuf but for ids, which are hex and not base64."""
    if isinstance(value, list):
        return [to_protobuf_json(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64encode(bytes.fromhex(one)).decode() if name in ID_FIELDS else to_protobuf_json(one)
        for name, one in value.items()
    }


def decode(body):
    """The message of the specification: an unknown field, a wrong type or a wrong enumerator is an error."""
    request = trace_service_pb2.ExportTraceServiceRequest()
    return json_format.ParseDict(to_protobuf_json(json.loads(body)), request)


def value_of(any_value):
    kind = any_value.WhichOneof("value")
    return getattr(any_value, kind)


class Span:
    """One span with its attributes as a dictionary; no attribute may be there twice."""

    def __init__(self, message):
        self.message = message
        self.name = message.name
        self.trace_id, self.span_id = message.trace_id.hex(), message.span_id.hex()
        self.parent_id = message.parent_span_id.hex()
        self.attributes = {one.key: value_of(one.value) for one in message.attributes}
        assert len(self.attributes) == len(message.attributes)
        self.events = [one.name for one in message.events]


class Collector:
    def __init__(self):
        self.lock = threading.Lock()
        self.bodies, self.paths, self.times, self.faults = [], [], [], []
        self.scripted = []  # (status, fields, body) of the next responses; then 200
        self.gate = threading.Event()  # no response leaves before it is set
        self.gate.set()

    def take(self, path, content_type, body):
        with self.lock:
            self.times.append(time.monotonic())
            self.paths.append((path, content_type))
            response = self.scripted.pop(0) if self.scripted else (200, {}, b"{}")
            if response[0] == 200:
                self.bodies.append(body)
        self.gate.wait()
        return response

    def requests(self):
        with self.lock:
            return [decode(body) for body in self.bodies]

    def all_spans(self):
        return [
            Span(span)
            for request in self.requests()
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def spans(self, count, path="/trace/"):
        """Those whose path begins so, oldest first, when there are so many."""

        def wanted():
            found = [span for span in self.all_spans() if span.attributes.get("url.path", "").startswith(path)]
            return found if len(found) >= count else None

        found = harness.poll(wanted, message=f"fewer than {count} spans of {path}")
        return sorted(found, key=lambda span: span.message.start_time_unix_nano)

    def span(self, path="/trace/"):
        (one,) = self.spans(1, path)
        return one


@contextlib.contextmanager
def collector():
    it = Collector()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, fields, content = it.take(self.path, self.headers["Content-Type"], body)
            self.send_response(status)
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            with contextlib.suppress(ConnectionError):  # its client may have failed
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer((harness.HOST, 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    it.url = f"http://{harness.HOST}:{server.server_address[1]}"
    yield it
    it.gate.set()
    server.shutdown()
    server.server_close()
