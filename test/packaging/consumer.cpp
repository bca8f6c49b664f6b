/* Owns: the proof that an installed uvhttp can be used through its C++ header: a server is made, and its coroutines
 * link. */
#include <cstdio>
#include <uvhttp.hpp>

int main() {
    uvhttp::server server{{.io_threads = 1}};
    server.get("/", [](uvhttp::request &) -> uvhttp::task<uvhttp::response> {
        co_await uvhttp::sleep(std::chrono::milliseconds(1));
        co_return uvhttp::text(200, "hello");
    });
    std::puts(uvhttp_version());
    return server.listen("127.0.0.1:0") == 0;
}
