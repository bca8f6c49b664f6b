"""Owns: the tests of what uvhttp-load makes of its counts: objectives, stages, capacity, samples, comparison, formats."""
import json
import os
import pty
import signal
import subprocess
import threading
import time

import pytest

from harness import ENGINE, HOST, free_port, poll
from load_program import LOAD, OK, load


def run_text(*args, environment=None):
    words = [str(word) for word in (LOAD, "--engine", ENGINE, *args)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, env={**os.environ, **(environment or {})})


# --- objectives ---


def test_objectives_decide_the_exit_code_and_stand_in_both_reports(target, tmp_path):
    path = tmp_path / "result.json"
    done = run_text("-n", 200, "--slo", "p99<60s,errors<0.1%,rate>1", "-j", path, target.url("/"))
    assert done.returncode == 0, done.stderr
    assert "SLO p99<60s          met: " in done.stdout
    slo = json.loads(path.read_text())["slo"]
    assert slo["met"] and [one["objective"] for one in slo["objectives"]] == ["p99<60s", "errors<0.1%", "rate>1"]
    run = load("-n", 200, "--slo", "p99<60s,max<1us", target.url("/"), code=3)
    assert not run.json["slo"]["met"] and [one["met"] for one in run.json["slo"]["objectives"]] == [True, False]
    assert run.json["slo"]["objectives"][1]["value"] == run.json["latency"]["max"]
    assert "objective" in run.err


def test_an_objective_of_errors_says_how_many_are_fine(stub):
    def one():
        return stub(lambda path, number: OK.replace(b"200", b"500") if number % 10 == 3 else OK).url

    load("-n", 50, "-c", 1, "-t", 1, "--slo", "errors<11%", one())
    load("-n", 50, "-c", 1, "-t", 1, "--slo", "errors<10%", one(), code=3)
    load("-n", 50, "-c", 1, "-t", 1, "--slo", "max<60s", one(), code=1)  # it does not say


@pytest.mark.threads
def test_requests_that_were_lost_are_errors_that_an_objective_may_permit(stub):
    """As many as were asked for have come to their end, though not each has a response."""
    def one():
        return stub(lambda path, number: None if number % 10 == 3 else OK).url

    run = load("-n", 50, "-c", 1, "-t", 1, "--slo", "errors<11%", one())
    assert (run.answers, run.errors["read"]) == (45, 5)
    load("-n", 50, "-c", 1, "-t", 1, "--slo", "errors<10%", one(), code=3)
    late = stub(lambda path, number: [60] if number == 3 else OK).url
    run = load("-n", 50, "-R", 500, "-c", 4, "-t", 1, "--timeout", "300ms", "--slo", "errors<10%", late)
    assert run.errors["total"] == 1 and run.errors["timeout"] == 1
    slow = stub(lambda path, number: [0.05, OK]).url
    run = load("-n", 50, "-c", 1, "-t", 1, "-d", "300ms", "--slo", "errors<10%", slow, code=1)
    assert "responses in the time given" in run.err


def test_timeouts_do_not_meet_an_objective(stub):
    one = stub(lambda path, number: [60] if number == 0 else OK)
    load("-n", 20, "-c", 1, "-t", 1, "--timeout", "100ms", "--slo", "max<50ms,errors<50%", one.url, code=3)


# --- stages ---


@pytest.mark.threads
def test_stages_ramp_the_rate_and_report_each(target, tmp_path):
    path = tmp_path / "result.json"
    done = run_text("--stages", "200ms:500,0s:1000,300ms:1000,200ms:0", "-c", 8, "-j", path, target.url("/"))
    assert done.returncode == 0, done.stderr
    run = json.loads(path.read_text())
    stages = run["stages"]
    assert [stage["due"] for stage in stages] == [50, 0, 300, 100]
    assert [stage["requests"] for stage in stages] == [50, 0, 300, 100]
    assert [(stage["rate_begin"], stage["rate_end"]) for stage in stages] == [(0, 500), (500, 1000), (1000, 1000), (1000, 0)]
    assert run["latency"]["count"] == run["results"]["requests"] == 450
    assert run["results"]["elapsed_s"] == pytest.approx(0.7)
    assert run["options"]["loop"] == "open"
    text = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in text if len(line) == 8 and line[0].isdigit()] == ["1", "3", "4"]


def test_a_stall_and_errors_belong_to_their_stage(stub):
    one = stub(lambda path, number: [0.15, OK.replace(b"200", b"500")] if number == 150 else OK)  # others may overtake it
    run = load("--stages", "0s:200,500ms:200,500ms:200", "-c", 8, "-t", 1, one.url, code=1)
    assert [stage["errors"] for stage in run.json["stages"]] == [0, 0, 1]
    assert run.json["stages"][2]["max"] > 0.14e9


# --- samples, histogram, progress ---


@pytest.mark.threads
def test_samples_add_up_to_the_whole(target):
    run = load("-d", "2200ms", "-c", 4, "-t", 2, target.url("/"))
    samples = run.json["samples"]
    assert len(samples) >= 2
    assert sum(sample["answers"] for sample in samples) == run.requests
    assert sum(sample["seconds"] for sample in samples) == pytest.approx(2.2, abs=0.001)
    assert samples[-1]["at_s"] == pytest.approx(2.2, abs=0.001)
    for sample in samples:
        assert sample["errors"] == 0
        assert sample["p50"] <= sample["p99"] <= run.json["latency"]["max"] or sample["answers"] == 0


def test_errors_are_in_the_samples_of_their_second(stub):
    starts = []

    def respond(path, number):
        starts.append(time.monotonic())
        return OK if starts[-1] - starts[0] < 2 else OK.replace(b"200", b"500")

    run = load("-d", "3s", "-c", 1, "-t", 1, "--think", "10ms", stub(respond).url, code=1)
    counts = [sample["errors"] for sample in run.json["samples"]]
    assert counts[0] == 0 and sum(counts) == run.errors["status"] > 0


def test_the_text_shows_the_histogram_in_few_lines(target):
    done = run_text("-n", 500, target.url("/"))
    bars = [line for line in done.stdout.splitlines() if line.endswith("#")]
    assert 1 <= len(bars) <= 12
    assert sum(float(line.split("%")[0].split()[-1]) for line in bars) == pytest.approx(100, abs=0.02)


def on_terminal(arguments, **environment):
    """What it writes to a terminal on standard error."""
    parent, child = pty.openpty()
    words = [str(word) for word in (LOAD, "--engine", ENGINE, *arguments)]
    given = {**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=child, env=given, text=True)
    os.close(child)
    seen = []

    def read():
        with open(parent, "rb", closefd=True) as terminal:
            try:
                while piece := terminal.read1():
                    seen.append(piece)
            except OSError:  # the other end is closed
                pass

    thread = threading.Thread(target=read)
    thread.start()
    out, _ = process.communicate(timeout=60)
    thread.join()
    return b"".join(seen).decode(), out


def test_progress_is_a_line_on_a_terminal_only(target, stub):
    seen, out = on_terminal(["-d", "2s", "-R", 100, "-c", 2, target.url("/")])
    assert "P99" in seen and "/s" in seen and "0 errors" in seen and "1s left" in seen
    assert seen.endswith("\r\x1b[K") and "\n" not in seen
    assert "\x1b" not in out
    short = ["-n", 20, "-c", 1, "-t", 1]
    assert "20.00 of 20.00" in on_terminal([*short, target.url("/")])[0]
    assert on_terminal([*short, target.url("/")], TERM="dumb")[0] == ""
    assert run_text(*short, target.url("/")).stderr == ""
    wrong = stub(OK.replace(b"200", b"500")).url
    assert "\x1b[31m" in on_terminal([*short, wrong])[0]
    assert "\x1b[31m" not in on_terminal([*short, wrong], NO_COLOR="1")[0]


# --- capacity ---


@pytest.mark.serial
def test_a_capacity_is_found_below_what_the_server_can_do(stub, tmp_path):
    """One connection and 5 ms for each response: 200 a second is the most."""
    path = tmp_path / "result.json"
    one = stub([0.005, OK])
    done = run_text("--capacity=30s", "--slo", "p90<50ms", "-R", 60, "-d", "400ms", "-w", "50ms", "-c", 1, "-t", 1,
                    "--hdr", tmp_path / "a.hgrm", "-j", path, one.url)  # fmt: skip
    found = json.loads(path.read_text())
    capacity = found["capacity"]
    assert done.returncode in (0, 4), done.stderr  # 4: the machine was busy while it was to be confirmed
    assert capacity["confirmed"] == (done.returncode == 0)
    assert 10 < capacity["rate"] < 220
    assert capacity["elapsed_s"] < 30
    assert not capacity["out_of_time"]
    assert any(probe["met"] for probe in capacity["probes"]) and not all(probe["met"] for probe in capacity["probes"])
    assert found["options"]["rate"] == capacity["probes"][-1]["rate"]
    assert found["options"]["duration_s"] == pytest.approx(0.8)  # of the confirmation
    assert "Capacity: " in done.stdout
    assert capacity["connections_limited"] or capacity["lower_bound"]


def test_a_server_that_is_too_slow_has_no_capacity_and_the_search_keeps_its_time(stub):
    one = stub([0.02, OK])
    start = time.monotonic()
    run = load("--capacity=4s", "--slo", "p50<1us", "-R", 2000, "-d", "100ms", "-w", "10ms", "-c", 2, "-t", 1, one.url, code=3)
    assert run.json["capacity"]["rate"] == 0
    assert all(probe["requests"] > 0 for probe in run.json["capacity"]["probes"])
    assert "no rate meets" in run.err
    assert time.monotonic() - start < 20


def test_a_search_without_time_for_a_measurement_is_refused(stub):
    one = stub(OK)
    run = load("--capacity=1s", "--slo", "p99<5s", "-d", "500ms", "-w", "0s", one.url, code=2)
    assert "--capacity" in run.err and "10.50s" in run.err  # a response may take twice the objective
    assert run.out == "" and not one.requests


def test_an_interrupted_search_reports_what_it_has(stub):
    def first_rate_is_met():
        one = stub(OK)
        words = [LOAD, "--engine", ENGINE, "-j", "-", "--capacity", "--slo", "max<60s", "-R", 50, "-d", "500ms", "-w", "0s",
                 "-c", 2, one.url]  # fmt: skip
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
        poll(lambda: len(one.requests) > 30)  # of 25 in the first window: this is the second one
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        found = json.loads(out)
        assert process.returncode == 130 and found["interrupted"]
        capacity = found["capacity"]
        assert not capacity["confirmed"] and capacity["probes"]
        assert capacity["rate"] == max((probe["rate"] for probe in capacity["probes"] if probe["met"]), default=0)
        if not all(probe["met"] for probe in capacity["probes"]):
            return False  # the machine has stood still
        assert capacity["lower_bound"] and not capacity["out_of_time"]
        return capacity["rate"] >= 50

    poll(first_rate_is_met, seconds=60)


# --- comparison ---


def result(path, rate=1000.0, latency=1e6, errors=0, samples=10, spread=0.01):
    """As uvhttp-load writes it, with seconds that differ by `spread`."""
    factors = [1 + spread * (i * 7 % 10 - 4.5) / 4.5 for i in range(samples)]
    latencies = dict.fromkeys(("mean", "p50", "p90", "p99", "p99_9", "max"), latency)
    path.write_text(json.dumps({
        "schema": "uvhttp-load/1",
        "options": {"loop": "closed"},
        "results": {"answers": 10000, "requests_per_second": rate, "errors": {"total": errors, "status": errors, "body": 0}},
        "latency": latencies,
        "samples": [
            {"at_s": i + 1, "seconds": 1, "answers": rate * factor, "errors": 0,
             "mean": latency / factor, "p50": latency / factor, "p99": latency / factor}
            for i, factor in enumerate(factors)
        ],
    }))  # fmt: skip
    return path


def test_a_comparison_says_tie_better_or_worse(tmp_path):
    a = result(tmp_path / "a.json")

    def compare(b, *options):
        return run_text_compare(a, b, *options)

    same = compare(result(tmp_path / "b.json", rate=1002, latency=0.999e6), "--threshold", 5)
    assert same.returncode == 0
    assert same.stdout.count("tie\n") == 4 and "not worse by more than 5 %" in same.stdout
    slower = compare(result(tmp_path / "b.json", rate=900), "--threshold", 5)
    assert slower.returncode == 3
    assert "0.900" in slower.stdout and " worse\n" in slower.stdout
    assert compare(result(tmp_path / "b.json", rate=900), "--threshold", "15%").returncode == 0
    assert compare(result(tmp_path / "b.json", rate=900)).returncode == 0  # nobody asked
    assert compare(result(tmp_path / "b.json", latency=1.2e6), "--threshold", 5).returncode == 3
    assert compare(result(tmp_path / "b.json", errors=3), "--threshold", 5).returncode == 3
    noisy = compare(result(tmp_path / "b.json", rate=930, latency=1.06e6, spread=0.5), "--threshold", 5)
    assert noisy.returncode == 0 and noisy.stdout.count("tie\n") == 4
    assert "not worse by more" not in noisy.stdout and "neither shown nor ruled out" in noisy.stdout
    few = compare(result(tmp_path / "b.json", rate=500, samples=3), "--threshold", 5)
    assert few.returncode == 4 and "too few samples" in few.stdout


def test_seconds_without_a_response_count_in_a_comparison(tmp_path):
    a, b = result(tmp_path / "a.json", samples=20), result(tmp_path / "b.json", rate=500, samples=20)
    stalled = json.loads(b.read_text())
    for i, sample in enumerate(stalled["samples"]):
        sample.update({"answers": 0, "mean": 0, "p50": 0, "p99": 0} if i % 2 else {"answers": 1000})
    b.write_text(json.dumps(stalled))
    done = run_text_compare(a, b, "--threshold", 5)
    assert done.returncode == 3, done.stdout
    assert any(line.startswith("  Requests/sec") and line.endswith(" worse") for line in done.stdout.splitlines())


def test_the_wait_behind_the_window_is_no_second_without_a_response(tmp_path):
    """An open loop waits for its last responses, and takes samples meanwhile."""
    a, b = result(tmp_path / "a.json"), result(tmp_path / "b.json")
    waited = json.loads(b.read_text())
    waited["results"]["elapsed_s"] = 10
    for i in range(20):
        waited["samples"].append({"at_s": 11 + i, "seconds": 1, "answers": 0, "mean": 0, "p50": 0, "p99": 0})
    b.write_text(json.dumps(waited))
    rate = next(line for line in run_text_compare(a, b).stdout.splitlines() if line.startswith("  Requests/sec"))
    low, _, high, verdict = rate.split()[-4:]
    assert verdict == "tie" and 0.9 < float(low) < float(high) < 1.1


def test_a_comparison_has_the_errors_as_a_share_of_the_whole_run(tmp_path):
    a, b = result(tmp_path / "a.json", errors=100), result(tmp_path / "b.json", errors=110)
    longer = json.loads(b.read_text())  # as many responses in its window, and as many again in a warm-up
    longer["results"]["answers_total"] = 20000
    b.write_text(json.dumps(longer))
    done = run_text_compare(a, b, "--threshold", 5)
    assert "1.0000% and 0.5500% of the requests\n" in done.stdout
    assert done.returncode == 0, done.stdout


def run_text_compare(a, b, *options):
    words = [str(word) for word in (LOAD, "--compare", *options, a, b)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


def test_what_is_no_result_is_not_compared(tmp_path):
    a = result(tmp_path / "a.json")
    for text in ("", "{}", "[1]", "{", '{"schema": "uvhttp-load/1"}', '{"schema": "uvhttp-load/1"', "\0"):
        wrong = tmp_path / "wrong.json"
        wrong.write_text(text)
        done = run_text_compare(a, wrong)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "wrong.json" in done.stderr
    assert run_text_compare(a, tmp_path / "nowhere").returncode == 2


def test_its_own_results_can_be_compared(target, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(load("-n", 100, target.url("/")).json, indent=1))  # somebody has formatted it
    done = run_text_compare(path, path)
    assert done.returncode == 0, done.stderr
    assert "1.000" in done.stdout and "too few samples" in done.stdout


# --- HdrHistogram ---


def test_hdrhistogram_reads_the_log_and_finds_the_same_percentiles(target, tmp_path):
    histogram = pytest.importorskip("hdrh.histogram")
    reader = pytest.importorskip("hdrh.log")
    log, text = tmp_path / "log.hlog", tmp_path / "result.hgrm"
    probe = run_text("--hdr", log, f"http://{HOST}:{free_port()}/")
    if "without zlib" in probe.stderr:
        pytest.skip(probe.stderr)
    begin = time.time()
    run = load("-d", "2300ms", "-c", 4, "--hdr", log, "--hdr", text, target.url("/"))
    whole, intervals = histogram.HdrHistogram(1, 86_400_000_000_000, 3), []
    lines = reader.HistogramLogReader(str(log), whole)
    while (interval := lines.get_next_interval_histogram()) is not None:
        intervals.append(interval)
        whole.add(interval)
    assert [interval.get_total_count() for interval in intervals] == [sample["answers"] for sample in run.json["samples"]]
    assert whole.get_total_count() == run.requests
    for percentile, name in ((50, "p50"), (90, "p90"), (99, "p99"), (99.9, "p99_9"), (100, "max")):
        # The reader rounds a rank to the nearest one, uvhttp-load rounds it up: adjacent values in the tail may be far apart.
        sample = 100 / run.requests
        low, high = (whole.get_value_at_percentile(min(100, percentile + offset)) for offset in (-sample, sample))
        assert low * 0.98 <= run.json["latency"][name] <= high * 1.02, name
    assert whole.get_mean_value() == pytest.approx(run.json["latency"]["mean"], rel=0.02)
    starts = [interval.get_start_time_stamp() / 1000 for interval in intervals]
    assert starts == sorted(starts) and begin - 1 < starts[0] < time.time()
    rows = [line.split() for line in text.read_text().splitlines() if line and line[0] != "#" and "Value" not in line]
    assert int(rows[-1][2]) == run.requests and float(rows[-1][0]) == pytest.approx(run.json["latency"]["max"] / 1e6, abs=0.001)
    medians = [float(row[0]) for row in rows if float(row[1]) == 0.5]
    assert medians == [pytest.approx(run.json["latency"]["p50"] / 1e6, abs=0.001)]


def test_what_is_no_regular_file_stays_what_it_is(target, tmp_path):
    fifo, link, file = tmp_path / "fifo", tmp_path / "link", tmp_path / "file"
    os.mkfifo(fifo)
    link.symlink_to(file)
    with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE) as reader:
        try:
            done = run_text("-n", 5, "-c", 1, "-t", 1, "--json", fifo, "--hdr", tmp_path / "x.hgrm", target.url("/"))
            assert done.returncode == 0 and fifo.is_fifo(), done.stderr
            assert json.loads(reader.communicate(timeout=10)[0])["results"]["requests"] == 5
        finally:
            reader.kill()
    assert run_text("-n", 5, "-c", 1, "-t", 1, "--json", link, target.url("/")).returncode == 0
    assert link.is_symlink() and json.loads(file.read_text())["results"]["requests"] == 5
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["fifo", "file", "link", "x.hgrm"]


@pytest.mark.parametrize("option, name", [("--hdr", "result.hgrm"), ("--json", "result.json")])
def test_a_file_that_cannot_be_written_is_an_error_before_the_run(stub, tmp_path, option, name):
    one = stub(OK)
    done = run_text("-n", 10, option, tmp_path / "no" / name, one.url)
    assert done.returncode == 1 and option in done.stderr and "cannot be written: No such file" in done.stderr
    assert done.stdout == "" and not one.requests
