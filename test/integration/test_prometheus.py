"""A real Prometheus (Debian's package) scrapes a server: its values are those of the load, the queries of the Grafana dashboard in
docs/monitoring have results, and the alert rules there fire when they should."""
import json
import pathlib
import shutil
import subprocess

import httpx
import pytest

import wire
from harness import HOST, free_port, poll
from load_program import LOAD, load
from test_metrics import METRICS, SPAN, TRACE

MONITORING = pathlib.Path(__file__).parents[2] / "docs" / "monitoring"
NUMBER = 3000

needs_prometheus = pytest.mark.skipif(not shutil.which("prometheus"), reason="prometheus is not installed")
needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool, of the package prometheus, is not installed")
needs_load = pytest.mark.skipif(not LOAD.exists(), reason="built without uvhttp-load")


def promtool(*words):
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Prometheus:
    def __init__(self, directory, target):
        text = (MONITORING / "prometheus.yml").read_text()
        text = text.replace("127.0.0.1:8080", "{}:{}".format(*target)).replace("/metrics", "/prometheus").replace("interval: 15s", "interval: 250ms\n  evaluation_interval: 250ms")
        (directory / "prometheus.yml").write_text(text)
        shutil.copy(MONITORING / "alerts.yml", directory)
        self.address = (HOST, free_port())
        self.log = directory / "prometheus.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data",
                 "--web.listen-address={}:{}".format(*self.address), "--enable-feature=exemplar-storage"],
                stdout=log, stderr=log,
            )
        self.client = httpx.Client(base_url="http://{}:{}/api/v1".format(*self.address), timeout=10)

    def get(self, path, **parameters):
        try:
            response = self.client.get(path, params=parameters)
        except httpx.TransportError:
            assert self.process.poll() is None, self.log.read_text()
            return None
        if response.status_code == 503:  # it starts
            return None
        body = response.json()
        assert body["status"] == "success", (parameters, body)
        return body["data"]

    def query(self, text):
        data = self.get("/query", query=text)
        return data["result"] if data else []

    def value(self, text):
        result = self.query(text)
        assert len(result) <= 1, (text, result)
        return float(result[0]["value"][1]) if result else None

    def close(self):
        self.client.close()
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture
def prometheus(tmp_path):
    started = []

    def start(server):
        started.append(Prometheus(tmp_path, server.address))
        return started[-1]

    yield start
    for one in started:
        one.close()


def dashboard_queries():
    """(panel, query) with the variables of the dashboard set."""
    for panel in json.loads((MONITORING / "grafana.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"].replace("$job", "uvhttp").replace("$instance", ".*").replace("$__rate_interval", "1m")
            assert "$" not in query, query
            yield panel["title"], query


def test_every_panel_of_the_dashboard_has_a_place_of_its_own():
    panels = json.loads((MONITORING / "grafana.json").read_text())["panels"]
    used = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & used and at["x"] + at["w"] <= 24, panel["title"]
        used |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


@needs_promtool
def test_the_alert_rules_fire_when_they_should():
    promtool("test", "rules", MONITORING / "alerts_test.yml")
    promtool("check", "config", MONITORING / "prometheus.yml")
    tested = (MONITORING / "alerts_test.yml").read_text()
    for line in (MONITORING / "alerts.yml").read_text().splitlines():
        if "- alert:" in line:
            assert line.partition("alert: ")[2] in tested


@needs_promtool
def test_promtool_finds_no_fault_in_the_names(serve):
    server = serve(settings=METRICS)
    server.get("/")
    text = server.get("/prometheus").body
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


@needs_prometheus
@needs_load
def test_prometheus_agrees_with_the_load_and_serves_the_dashboard(serve, prometheus):
    server = serve(settings={**METRICS, "io_threads": 2})
    one = prometheus(server)
    poll(lambda: one.value("up") == 1, seconds=60)
    run = load("-n", NUMBER, "-c", 8, server.url("/"))
    assert run.statuses == {"200": NUMBER}
    for _ in range(5):
        server.get("/nowhere")
        server.get("/nothing")  # 500: its handler does not respond
    with wire.Connection(server.address) as connection:
        connection.send(b"GET / HTTP/1.1\r\n\r\n")  # without Host
        assert connection.response().status == 400
    server.get("/pieces", headers=[("traceparent", f"00-{TRACE}-{SPAN}-01")])
    count = 'http_server_request_duration_seconds_count{http_route="/"}'
    poll(lambda: one.value(count) == NUMBER, seconds=20)
    poll(lambda: one.value('sum(http_server_request_duration_seconds_count{http_response_status_code="500"})') == 5, seconds=20)
    assert one.value('http_server_request_duration_seconds_bucket{http_route="/", le="+Inf"}') == NUMBER
    # In one question: between two there may be another scrape, which is a request itself.
    assert one.value("sum(uvhttp_loop_requests_total) - sum(uvhttp_requests_total)") == 0
    poll(lambda: {rule["health"] for group in one.get("/rules")["groups"] for rule in group["rules"]} == {"ok"}, seconds=20)
    for title, query in dashboard_queries():
        assert poll(lambda: one.query(query), seconds=20, every=0.1, message=f"{title}: nothing for {query}")


@needs_prometheus
def test_prometheus_keeps_the_trace_of_an_exemplar(serve, prometheus):
    server = serve(settings=METRICS)
    one = prometheus(server)

    def exemplars():
        server.get("/", headers=[("traceparent", f"00-{TRACE}-{SPAN}-01")])
        return one.get("/query_exemplars", query="http_server_request_duration_seconds_bucket", start="0", end="9999999999")

    found = poll(exemplars, seconds=60, every=0.1)
    assert found[0]["exemplars"][0]["labels"] == {"trace_id": TRACE, "span_id": SPAN}
