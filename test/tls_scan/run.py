#!/usr/bin/env python3
"""testssl.sh and sslyze against the test server: every TLS library with an ECDSA and with an RSA certificate of a CA made
here, side by side. testssl.sh may find nothing above "low", sslyze nothing against Mozilla's "intermediate" rules; both
are judged by what they write as JSON. A scan takes minutes, so it is no step of ./dev test.

  ./dev tls-scan                                  all of it
  ./dev tls-scan --library mbedtls --key rsa      a part of it"""
import argparse
import concurrent.futures
import itertools
import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "tools"))
from served import HOST, free_ports, served

WORK = ROOT / "build" / "tls_scan"
SERVERS = {"openssl": ROOT / "build/test/bin/http_test_server", "mbedtls": ROOT / "build/mbedtls/test/bin/http_test_server"}
KEYS = {"ec": ("EC", "ec_paramgen_curve:P-256"), "rsa": ("RSA", "rsa_keygen_bits:2048")}
PAGE = "/guarded/own"  # a page with the security headers of the middleware: testssl.sh looks at them, too
GOOD = ("OK", "INFO", "LOW")
# What is about the certificate made here, of a CA that nobody asks for anything, or about the machine that scans. The tickets
# of TLS 1.3 come behind the handshake, and testssl.sh's client does not wait for them: on a busy machine it finds none with
# any server, and calls it a connect problem. sslyze looks at resumption in its place.
ALLOWED = {("cert_revocation", "HIGH"), ("engine_problem", "WARN"), ("sessionresumption_ticket", "WARN")}
SECONDS = 2400  # a hang, not a measure


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def make_certificates():
    """ca.pem, and <key>.pem with <key>.key for localhost."""
    authority = WORK / "ca"
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", 90, "-subj", "/CN=scan",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", f"{authority}.key", "-out", f"{authority}.pem")
    (WORK / "leaf.ext").write_text("subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n"
                                   "keyUsage=critical,digitalSignature\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n")
    for name, (algorithm, option) in KEYS.items():
        leaf = WORK / name
        openssl("genpkey", "-algorithm", algorithm, "-pkeyopt", option, "-out", f"{leaf}.key")
        leaf.with_suffix(".key").chmod(0o600)
        openssl("req", "-new", "-key", f"{leaf}.key", "-subj", "/CN=localhost", "-out", f"{leaf}.csr")
        openssl("x509", "-req", "-in", f"{leaf}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial",
                "-days", 90, "-extfile", WORK / "leaf.ext", "-out", f"{leaf}.pem")


def run(name, command):
    """Returns the exit status; what was printed is in a log."""
    with open(WORK / f"{name}.log", "wb") as log:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=SECONDS, cwd=WORK).returncode


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RuntimeError(f"no result: {error}") from error


def testssl(name, port):
    """Returns what is wrong, and how many findings there were."""
    result = WORK / f"{name}.json"
    result.unlink(missing_ok=True)
    program = shutil.which("testssl") or shutil.which("testssl.sh")
    run(name, [program, "--quiet", "--warnings", "batch", "--nodns", "none", "--color", "0", "--ip", HOST, "--add-ca", WORK / "ca.pem",
               "--jsonfile", result, f"https://localhost:{port}{PAGE}"])
    findings = read_json(result)
    bad = [f"{finding['severity']} {finding['id']}: {finding['finding']}" for finding in findings
           if finding["severity"] not in GOOD and (finding["id"], finding["severity"]) not in ALLOWED]
    if not any(finding["id"] == "scanTime" for finding in findings):
        bad.append("it has not come to its end")
    return bad, len(findings)


def sslyze(name, port):
    """The same. What differs from Mozilla's rules is printed and not in the JSON, the chain to our CA only there."""
    result = WORK / f"{name}.json"
    result.unlink(missing_ok=True)
    run(name, [WORK / "venv/bin/sslyze", "--mozilla_config=intermediate", "--certinfo_ca_file", WORK / "ca.pem", "--slow_connection",
               "--resum", "--json_out", result, f"localhost:{port}"])
    scans = read_json(result)["server_scan_results"]
    rules = (WORK / f"{name}.log").read_text().rpartition("Checking results against Mozilla's")[2]
    if not rules or len(scans) != 1 or scans[0]["scan_status"] != "COMPLETED":
        return ["it has not scanned"], 0
    bad = [line.strip() for line in rules.splitlines() if line.startswith("        *") and "certificate_path_validation" not in line]
    certificates = scans[0]["scan_result"]["certificate_info"]["result"]["certificate_deployments"]
    paths = [path for one in certificates for path in one["path_validation_results"] if path["trust_store"]["name"] == "Supplied CA file"]
    bad += [f"certificate chain: {path['validation_error']}" for path in paths if not path["was_validation_successful"]]
    resumption = scans[0]["scan_result"]["session_resumption"]["result"]
    if not resumption or resumption["tls_ticket_resumption_result"] != "FULLY_SUPPORTED":
        bad.append(f"resumption by ticket: {resumption}")
    results = {what: one for what, one in scans[0]["scan_result"].items() if one["status"] != "NOT_SCHEDULED"}
    return bad + [f"{what}: {one['status']}" for what, one in results.items() if one["status"] != "COMPLETED"], len(results)


TOOLS = {"testssl": testssl, "sslyze": sslyze}


def scan(tool, library, key):
    """Returns whether all is good, and a line with those behind it that say what is wrong."""
    name = f"{tool}-{library}-{key}"
    plain, port = free_ports(2)
    command = [SERVERS[library], "--listen", f"{HOST}:{plain}", "--tls-listen", f"{HOST}:{port}",
               "--cert", WORK / f"{key}.pem", "--key", WORK / f"{key}.key"]
    try:
        with served(command, port, WORK / f"{name}.server.log"):
            bad, count = TOOLS[tool](name, port)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        bad, count = [str(error)], 0
    return not bad, "\n".join([f"{name}: {count} results, {len(bad) or 'none'} bad", *(f"  FAILED {line}" for line in bad)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=TOOLS, help="one tool only")
    parser.add_argument("--library", choices=SERVERS, help="one library only")
    parser.add_argument("--key", choices=KEYS, help="one kind of key only")
    arguments = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    make_certificates()
    choices = ((arguments.tool, TOOLS), (arguments.library, SERVERS), (arguments.key, KEYS))
    every = itertools.product(*([one] if one else all_of_them for one, all_of_them in choices))
    good = True
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for one in concurrent.futures.as_completed([pool.submit(scan, *which) for which in every]):
            passed, text = one.result()
            good = good and passed
            print(text, flush=True)
    print(f"logs and results: {WORK.relative_to(ROOT)}/")
    sys.exit(0 if good else 1)


main()
