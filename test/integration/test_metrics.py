"""Metrics as Prometheus reads them: by the parsers of PyPI's prometheus_client, and compared with what clients have done."""
import collections
import json
import re
import shutil
import subprocess

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

import harness
from harness import poll
from load_program import LOAD, load

pytestmark = pytest.mark.neutral

OPENMETRICS = ("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
DURATION = "http_server_request_duration_seconds"
OTEL_BOUNDS = ["0.005", "0.01", "0.025", "0.05", "0.075", "0.1", "0.25", "0.5", "0.75", "1.0", "2.5", "5.0", "7.5", "10.0", "+Inf"]
METRICS = {"metrics": "on"}
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

threads = pytest.mark.threads


def scrape(server, *headers, target="/prometheus"):
    response = server.get(target, headers=headers)
    assert response.status == 200 and response.header("Cache-Control") == "no-store"
    return response.header("Content-Type"), response.body.decode()


def families(server):
    kind, text = scrape(server, OPENMETRICS)
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    return {family.name: family for family in parse_openmetrics(text)}


def snapshot(server, target="/prometheus"):
    kind, text = scrape(server, ("Accept", "application/json"), target=target)
    assert kind == "application/json"
    return json.loads(text)


def counts(server, target="/prometheus"):
    """Ended requests by (method, route, status, protocol), without those of the scrapes themselves."""
    return counts_of(snapshot(server, target), target)


def counts_of(shown, target="/prometheus"):
    found = collections.Counter()
    for series in shown["series"]:
        if series["route"] != target:
            found[series["method"], series["route"], series["status"], series["protocol"]] += series["count"]
    return found


def ended(server, expected):
    """What a client has read is counted when the iteration of its loop ends, which may be later."""
    poll(lambda: counts(server).total() >= expected)
    return counts(server)


def version(server):
    return "2" if server.protocol == "http2" else "1.1"


# --- formats ---


def test_both_text_formats_have_the_same_samples(serve):
    server = serve(settings=METRICS)
    server.get("/")
    server.get("/nowhere")
    kind, text = scrape(server)
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    old = {family.name: family for family in parse_prometheus(text)}
    new = families(server)
    assert old["uvhttp_requests"].type == new["uvhttp_requests"].type == "counter"
    assert new["uvhttp_received_bytes"].unit == "bytes" and new[DURATION].unit == "seconds"
    assert new["uvhttp_build"].type == "info"
    # The parser names families of counters without their suffix, and a histogram's samples after it, in both.
    names = {name.removesuffix("_info") for name in old}
    assert names == set(new)
    for name, family in new.items():
        before = old[name] if name in old else old[f"{name}_info"]
        assert before.documentation == family.documentation != ""
        assert {sample.name for sample in before.samples} == {sample.name for sample in family.samples}
    assert text.count("# TYPE ") == len(old), "a family is shown once"


def test_histograms_have_the_bounds_of_opentelemetry_and_grow(serve):
    server = serve(settings=METRICS)
    for _ in range(3):
        server.get("/")
    ended(server, 3)
    family = families(server)[DURATION]
    by_labels = collections.defaultdict(list)
    for sample in family.samples:
        if sample.name.endswith("_bucket"):
            labels = dict(sample.labels)
            bound = labels.pop("le")
            by_labels[tuple(sorted(labels.items()))].append((bound, sample.value))
    for buckets in by_labels.values():
        assert [bound for bound, _ in buckets] == OTEL_BOUNDS
        assert [value for _, value in buckets] == sorted(value for _, value in buckets)
    wanted = {
        "http_request_method": "GET", "http_response_status_code": "200", "http_route": "/",
        "network_protocol_version": version(server), "url_scheme": "http",
    }
    assert by_labels[tuple(sorted(wanted.items()))][-1] == ("+Inf", 3)


def test_a_label_is_escaped(serve):
    """The pattern of a route may have what ends a label's value; a request's path is never shown."""
    server = serve(settings=METRICS)
    for target in ("/nowhere/%22%7D%0A", "/echo/%22"):
        server.get(target)
    routes = {sample.labels.get("http_route") for sample in families(server)[DURATION].samples}
    assert routes <= {None, "/echo/*rest", "/prometheus"}


def test_an_exemplar_is_the_trace_of_a_request(serve):
    server = serve(settings=METRICS)

    def exemplars():
        server.get("/", headers=[("traceparent", f"00-{TRACE}-{SPAN}-01")])
        return [sample.exemplar for sample in families(server)[DURATION].samples if sample.exemplar]

    found = poll(exemplars)
    assert found[0].labels == {"trace_id": TRACE, "span_id": SPAN}
    assert 0 < found[0].value < 60
    assert "trace_id" not in scrape(server)[1], "only OpenMetrics has exemplars"


def test_a_request_that_is_not_sampled_is_no_exemplar(serve):
    server = serve(settings=METRICS)
    for _ in range(30):
        server.get("/", headers=[("traceparent", f"00-{TRACE}-{SPAN}-00")])
    assert not [sample for sample in families(server)[DURATION].samples if sample.exemplar]


def test_every_counter_is_shown_by_its_name(serve):
    server = serve(settings=METRICS)
    shown = snapshot(server)
    names = set(server.counters())
    assert {name for name in names if not name.startswith("test_")} <= set(shown["metrics"])
    assert shown["recording"] is True and shown["engine"] in ("io_uring", "epoll")
    assert shown["process"]["open_descriptors"] == pytest.approx(server.descriptors(), abs=2)
    assert shown["process"]["resident_bytes"] == pytest.approx(server.resident_bytes(), rel=0.5)
    assert shown["process"]["cpu_user_seconds"] + shown["process"]["cpu_system_seconds"] == pytest.approx(server.cpu_seconds(), abs=0.1)


# --- exactness ---


def test_without_the_setting_counters_are_shown_and_requests_are_not(serve):
    server = serve()
    server.get("/")
    shown = families(server)
    assert shown["uvhttp_requests"].samples[0].value >= 1
    assert DURATION not in shown
    assert shown["uvhttp_metrics_recording"].samples[0].value == 0


def test_every_request_of_several_clients_is_counted_once(serve):
    server = serve(settings=METRICS)
    for target, number in (("/", 7), ("/nowhere", 3), ("/echo/a", 2), ("/echo/b", 2)):
        for _ in range(number):
            server.get(target)
    with server.connect() as connection:
        for _ in range(20):
            connection.get("/")
    found = ended(server, 34)
    assert found == {
        ("GET", "/", 200, version(server)): 27,
        ("GET", "", 404, version(server)): 3,
        ("GET", "/echo/*rest", 200, version(server)): 4,
    }


def test_a_body_is_counted_with_all_of_its_bytes(serve):
    server = serve(settings=METRICS)
    body = b"x" * 70000
    with server.connect() as connection:
        connection.start("/echo", method="POST", body=body).response()
    ended(server, 1)
    series = next(series for series in snapshot(server)["series"] if series["route"] == "/echo")
    assert series["method"] == "POST" and series["request_body_sum"] == len(body)
    assert sum(series["request_body_counts"]) == series["count"] == 1
    assert series["response_body_sum"] > 0


@pytest.mark.skipif(not LOAD.exists(), reason="built without uvhttp-load")
@threads
@pytest.mark.parametrize("loops", [1, 3])
def test_counts_are_those_of_uvhttp_load(serve, loops):
    server = serve(settings={**METRICS, "io_threads": loops})
    number = 20000 if not harness.sanitizer() else 2000
    options = ["--h2"] if server.protocol == "http2" else ["-p", 4]
    run = load("-n", number, "-c", 16, *options, server.url("/"))
    assert run.statuses == {"200": number}
    found = ended(server, number)
    assert found[("GET", "/", 200, version(server))] == number
    shown = snapshot(server)
    assert sum(loop["requests"] for loop in shown["loops"]) == shown["metrics"]["requests"]
    assert sum(count for _, _, count in shown["response_times_ns"]) >= number
    assert len(shown["loops"]) == loops and all(loop["cpu_seconds"] > 0 for loop in shown["loops"])
    assert shown["active_requests"] == 1, "that of the snapshot itself"


@pytest.mark.http1("wrk speaks nothing else")
@pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")
def test_counts_and_bytes_agree_with_wrk(serve):
    """wrk leaves the requests that are on their way at its end: as many as it has connections."""
    server = serve(settings={**METRICS, "io_threads": 2})
    out = subprocess.run(["wrk", "-t1", "-c8", "-d2s", server.url("/")], capture_output=True, text=True, check=True, timeout=60).stdout
    requests = int(re.search(r"(\d+) requests in", out)[1])
    bodies = []  # of the snapshots, which count as sent, too

    def look():
        bodies.append(scrape(server, ("Accept", "application/json"))[1])
        return json.loads(bodies[-1])

    poll(lambda: look()["active_requests"] == 1)
    counted = counts_of(look())[("GET", "/", 200, "1.1")]
    assert requests <= counted <= requests + 8, out
    read, unit = re.search(r"requests in [\d.]+s, ([\d.]+)(\w+) read", out).groups()
    read = float(read) * {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[unit]
    own = sum(len(body) + 500 for body in bodies)  # with their heads
    sent = look()["metrics"]["bytes_sent"]
    assert read * 0.99 < sent < read * 1.01 + own + (counted - requests) * read / requests


def test_requests_that_wait_are_active(serve):
    server = serve("performance_test", "--metrics", "on")
    with server.connect() as connection:
        waiting = [connection.start("/sleep200")]
        poll(lambda: snapshot(server, "/metrics")["active_requests"] >= 2)
        for request in waiting:
            assert request.response().status == 200
    poll(lambda: snapshot(server, "/metrics")["active_requests"] == 1)
    key = ("GET", "/sleep200", 200, version(server))
    assert counts(server, "/metrics")[key] == 1
    series = next(series for series in snapshot(server, "/metrics")["series"] if series["route"] == "/sleep200")
    assert 0.15 < series["duration_sum"] < 10


def test_a_client_that_goes_leaves_no_active_request(serve):
    server = serve("performance_test", "--metrics", "on")
    with server.connect() as connection:
        request = connection.start("/sleep200")
        poll(lambda: snapshot(server, "/metrics")["active_requests"] >= 2)
        request.cancel()
    poll(lambda: snapshot(server, "/metrics")["active_requests"] == 1)
    gone = [series for series in snapshot(server, "/metrics")["series"] if series["route"] == "/sleep200"]
    assert sum(series["count"] for series in gone) == 1
    assert gone[0]["status"] == 0 and gone[0]["error_type"]


def test_the_example_prints_what_it_has_counted(serve):
    server = serve("metrics")
    for name in ("a", "b"):
        assert server.get(f"/hello/{name}").body == name.encode()
    server.get("/nowhere")
    ended_counts = poll(lambda: counts(server, "/metrics").total() >= 3 and counts(server, "/metrics"))
    assert ended_counts["GET", "/hello/:name", 200, version(server)] == 2
    server.stop()
    assert "GET /hello/:name 200: 2\nGET /metrics 200: " in server.stderr()
