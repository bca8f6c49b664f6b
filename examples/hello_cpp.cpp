/* The same server from C++20: lambdas, a coroutine that waits, a response from another thread.
 *
 *   build/dist/bin/hello_cpp 127.0.0.1:8080
 *   curl http://127.0.0.1:8080/                      # Hello, World!
 *   curl http://127.0.0.1:8080/users/7?greeting=Hi   # {"id":"7","greeting":"Hi"}
 *   curl http://127.0.0.1:8080/wait                  # slept, 200 ms later
 *   curl http://127.0.0.1:8080/ask                   # asks a server (itself) for /sum: 42
 *   curl http://127.0.0.1:8080/later                 # from a thread
 *   curl http://127.0.0.1:8080/throw                 # 500
 *   curl -T FILE http://127.0.0.1:8080/size          # its size, counted as it arrives
 */
#include <thread>
#include <uvhttp.hpp>

using namespace std::chrono_literals;

/* Any coroutine may be awaited by another. */
static uvhttp::task<int> slow_sum(int a, int b) {
    co_await uvhttp::sleep(20ms);
    co_return a + b;
}

int main(int argc, char **argv) try {
    const std::string address = argc > 1 ? argv[1] : "127.0.0.1:8080";
    uvhttp::server server{{.io_threads = 1, .keepalive_timeout = 30}};

    server.get("/", [](uvhttp::request &) { return uvhttp::text(200, "Hello, World!"); });

    server.get("/users/:id", [](uvhttp::request &req) {
        std::string body = "{\"id\":\"";
        body.append(req.param("id")).append("\",\"greeting\":\"");
        body.append(req.query_param("greeting").value_or("Hello")).append("\"}");
        return uvhttp::json(200, std::move(body)).header("Cache-Control", "no-store");
    });

    server.get("/wait", [](uvhttp::request &) -> uvhttp::task<uvhttp::response> {
        co_await uvhttp::sleep(200ms);
        co_return uvhttp::text(200, "slept\n");
    });

    server.get("/sum", [](uvhttp::request &) -> uvhttp::task<uvhttp::response> {
        int sum = co_await slow_sum(20, 22);
        co_return uvhttp::text(200, std::to_string(sum));
    });

    server.get("/ask", [&address](uvhttp::request &) -> uvhttp::task<uvhttp::response> {
        std::string url = "http://" + address + "/sum";
        auto response = co_await uvhttp::fetch({.url = url.c_str(), .timeout = 2s});
        co_return uvhttp::text(response.status(), response.body());
    });

    server.get("/later", [](uvhttp::request &, uvhttp::reply &reply) {
        std::thread([later = reply.defer()] { later.text(200, "from a thread\n"); }).detach();
    });

    server.get("/throw", [](uvhttp::request &) -> uvhttp::response { throw std::runtime_error("thrown"); });

    uvhttp_route_options_t as_it_comes{};
    as_it_comes.stream_body = true;
    server.put(
        "/size",
        [](uvhttp::request &req) -> uvhttp::task<uvhttp::response> {
            uvhttp::body_stream body(req);
            std::size_t size = 0;
            while (auto piece = co_await body.next()) size += piece->size();
            co_return uvhttp::text(200, std::to_string(size));
        },
        as_it_comes);

    return server.run(address.c_str()) != 0; /* until SIGINT or SIGTERM, drained */
} catch (const std::exception &error) {
    std::fprintf(stderr, "hello_cpp: %s\n", error.what());
    return 1;
}
