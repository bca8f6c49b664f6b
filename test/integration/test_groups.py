"""Routes in groups: how they run and what limits they have by the defaults of their groups."""
import pytest

pytestmark = pytest.mark.neutral


@pytest.mark.parametrize(
    "method, target, mode",
    [("GET", "/groups/x", "worker"), ("POST", "/groups/x", "worker"), ("POST", "/groups/inner/x", "loop"), ("PUT", "/groups/inner/large", "worker")],
)
def test_a_route_runs_as_its_innermost_defaults_say(connection, method, target, mode):
    body = None if method == "GET" else b"four"
    response = connection.get(target, method=method, body=body)
    assert (response.status, response.text) == (200, f"{mode} {len(body or b'')}")


@pytest.mark.parametrize("method, target, most", [("POST", "/groups/x", 100_000), ("POST", "/groups/inner/x", 100_000), ("PUT", "/groups/inner/large", 200_000)])
def test_a_limit_is_inherited_unless_the_route_has_its_own(server, method, target, most):
    with server.connect() as connection:
        assert connection.get(target, method=method, body=b"x" * most).text.endswith(f" {most}")
    with server.connect() as connection:
        assert connection.get(target, method=method, body=b"x" * (most + 1)).status == 413
