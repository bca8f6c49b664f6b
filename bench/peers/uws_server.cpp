// Owns: uWebSockets as a peer: one loop, the same responses as performance_test, files left out (it has no file
// server).
//
//   uws_server PORT TLS_PORT CERTIFICATE KEY
#include <App.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

const std::string large(100 * 1024, 'a');

struct Session {};

// Bytes that the socket does not accept at once are sent when it is writable, without a copy.
template <class Response> void send_large(Response *res) {
    res->writeHeader("Content-Type", "application/octet-stream");
    if (res->tryEnd(large, large.size()).second) return;
    res->onAborted([] {}); // required: the response outlives this call
    res->onWritable(
        [res](uintmax_t offset) { return res->tryEnd(std::string_view(large).substr(offset), large.size()).first; });
}

template <class App> void add_routes(App &app, int port) {
    app.get("/", [](auto *res, auto *) { res->writeHeader("Content-Type", "text/plain")->end("Hello, World!"); });
    app.get("/large/100kb", [](auto *res, auto *) { send_large(res); });
    app.template ws<Session>(
        "/ws", {.compression = uWS::DISABLED,
                .maxPayloadLength = 1 << 20,
                .idleTimeout = 60,
                .maxBackpressure = 16 << 20,
                .message = [](auto *ws, std::string_view message, uWS::OpCode type) { ws->send(message, type); }});
    app.listen("127.0.0.1", port, [port](auto *socket) {
        if (socket) return;
        std::fprintf(stderr, "uws_server: cannot listen on port %d\n", port);
        std::exit(1);
    });
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 5) {
        std::fputs("usage: uws_server PORT TLS_PORT CERTIFICATE KEY\n", stderr);
        return 2;
    }
    uWS::App plain;
    uWS::SSLApp secure({.key_file_name = argv[4], .cert_file_name = argv[3]});
    add_routes(plain, std::atoi(argv[1]));
    add_routes(secure, std::atoi(argv[2]));
    plain.run(); // both run on this thread's loop
    return 1;
}
