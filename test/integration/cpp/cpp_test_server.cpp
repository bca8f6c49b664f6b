/* What test_cpp.py asks of the C++ interface: every way to end a coroutine, counted: frames that live, exceptions,
 * allocations. Next to them a handler of C that waits and responds in the same way, to compare its allocations.
 *
 *   cpp_test_server ADDRESS */
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <uvhttp.hpp>

using namespace std::chrono_literals;

/* --- counting --- */

static std::atomic<long> news, hook_calls, live, hooked, ready_calls;
static std::atomic<long> new_to_fail, hook_to_fail; /* counted down; the one that reaches 0 fails */

static bool fails(std::atomic<long> &countdown) {
    return countdown > 0 && --countdown == 0;
}

#ifdef COUNT_NEWS
static void *allocate(std::size_t size) {
    news++;
    if (fails(new_to_fail)) throw std::bad_alloc();
    if (void *memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}
void *operator new(std::size_t size) {
    return allocate(size);
}
void operator delete(void *memory) noexcept {
    std::free(memory);
}
void operator delete(void *memory, std::size_t) noexcept {
    std::free(memory);
}
#endif

static void *hook_malloc(std::size_t size, void *) {
    hook_calls++;
    return fails(hook_to_fail) ? nullptr : std::malloc(size);
}
static void *hook_calloc(std::size_t count, std::size_t size, void *) {
    hook_calls++;
    return fails(hook_to_fail) ? nullptr : std::calloc(count, size);
}
static void *hook_realloc(void *memory, std::size_t size, void *) {
    hook_calls++;
    return fails(hook_to_fail) ? nullptr : std::realloc(memory, size);
}
static void hook_free(void *memory, void *) {
    std::free(memory);
}

/* A local variable of a coroutine: counts those that live. */
struct tracker {
    tracker() {
        live++;
    }
    tracker(const tracker &) = delete;
    tracker &operator=(const tracker &) = delete;
    ~tracker() {
        live--;
    }
};

/* --- handlers --- */

using uvhttp::reply;
using uvhttp::request;
using uvhttp::response;
using uvhttp::task;

static long number(request &req, const char *name, long otherwise) {
    auto text = req.query_param(name);
    return text ? std::strtol(std::string(*text).c_str(), nullptr, 10) : otherwise;
}

static task<long> nested(long depth, long ms) {
    tracker alive;
    if (depth == 0) {
        co_await uvhttp::sleep(std::chrono::milliseconds(ms));
        co_return 0;
    }
    co_return 1 + co_await nested(depth - 1, ms);
}

static task<> fail_later() {
    tracker alive;
    co_await uvhttp::sleep(1ms);
    throw std::runtime_error("later");
}

static task<response> wait(request &req) {
    tracker alive;
    std::string_view path = req.path(); /* must be valid behind the wait */
    co_await uvhttp::sleep(std::chrono::milliseconds(number(req, "ms", 1)));
    std::string body(path);
    body.append(" ").append(req.header("X-Name").value_or("-"));
    co_return uvhttp::text(200, std::move(body)).header("X-First", "1").header("X-First", "2");
}

/* Ends when the writer of a named pipe has closed it; the loop waits, so that what happens meanwhile comes before the
 * response is made. */
static task<response> end_in_a_blocked_iteration(request &req) {
    tracker alive;
    co_await uvhttp::sleep(1ms);
    char byte;
    int pipe = open(std::string(req.query_param("pipe").value_or("")).c_str(), O_RDONLY | O_CLOEXEC);
    while (pipe >= 0 && read(pipe, &byte, 1) > 0) {
    }
    close(pipe);
    co_return uvhttp::text(200, std::string(100, 'x'));
}

static task<response> literal(request &) {
    co_await uvhttp::sleep(0ms);
    co_return uvhttp::text(200, "the same literal, which is longer than a short string\n");
}

/* Shared by all responses; the sizes are of what is in memory, and of what is a file. */
static response made_once(request &req) {
    static const uvhttp::shared_body small("made once"), large(std::string(100000, 'c'));
    return {200, "text/plain", req.query_param("large") ? large : small};
}

static task<response> at_once(request &) {
    co_return uvhttp::text(200, "at once");
}

static task<response> read_body(request &req) {
    tracker alive;
    uvhttp::body_stream body(req);
    long pause_ms = number(req, "ms", -1), until = number(req, "until", -1), size = 0, sum = 0;
    while (auto piece = co_await body.next()) {
        size += static_cast<long>(piece->size());
        for (char byte : *piece) sum += static_cast<unsigned char>(byte);
        if (until >= 0 && size >= until) break;
        if (pause_ms >= 0) co_await uvhttp::sleep(std::chrono::milliseconds(pause_ms));
    }
    co_return uvhttp::text(200, std::to_string(size) + " " + std::to_string(sum));
}

/* --- what else can be waited for --- */

static std::chrono::milliseconds limit(request &req) {
    long ms = number(req, "limit", -1);
    return ms < 0 ? uvhttp::never : std::chrono::milliseconds(ms);
}

/* The ends of a pipe, or of a pair of sockets. */
struct ends {
    explicit ends(bool sockets) {
        if ((sockets ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds)
                     : pipe2(fds, O_CLOEXEC | O_NONBLOCK)) != 0)
            std::abort();
    }
    ends(const ends &) = delete;
    ends &operator=(const ends &) = delete;
    ~ends() {
        for (int fd : fds)
            if (fd >= 0) close(fd);
    }
    int fds[2]{};
};

static thread_local bool interrupt_poll;

/* The library's header asks with it; a signal can come at any moment. */
extern "C" int poll(pollfd *fds, nfds_t count, int timeout_ms) {
    if (std::exchange(interrupt_poll, false)) {
        errno = EINTR;
        return -1;
    }
    const timespec timeout{timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    return ppoll(fds, count, timeout_ms < 0 ? nullptr : &timeout, nullptr);
}

static task<response> wait_interrupted(request &) {
    ends pipe(false);
    close(std::exchange(pipe.fds[1], -1));
    interrupt_poll = true;
    co_await uvhttp::readable(pipe.fds[0], 10s);
    co_return uvhttp::text(interrupt_poll ? 500 : 200, "readable");
}

static task<response> wait_descriptor(request &req) {
    tracker alive;
    ends pipe(false);
    co_await uvhttp::writable(pipe.fds[1]);
    if (!req.query_param("limit") && !req.query_param("wait")) close(std::exchange(pipe.fds[1], -1));
    co_await uvhttp::readable(pipe.fds[0], limit(req));
    co_return uvhttp::text(200, "readable");
}

/* Writes more than a socket takes, and reads it with another coroutine's help: none is there, so that it ends by its
 * limit; or talks to a server. */
static task<response> wait_write(request &req) {
    tracker alive;
    ends pair(true);
    uvhttp::socket out(std::exchange(pair.fds[0], -1));
    co_await out.write(std::string(8 << 20, 'x'), limit(req));
    co_return uvhttp::text(200, "all of it");
}

static task<response> talk(request &req) {
    tracker alive;
    std::string to(req.query_param("to").value_or("")), text;
    char memory[100];
    auto peer = co_await uvhttp::connect(to.c_str(), limit(req));
    co_await peer.write("GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    while (auto size = co_await peer.read(memory, limit(req))) text.append(memory, size);
    co_return uvhttp::text(200, text.substr(0, text.find('\r')));
}

static task<response> ask_other(request &req) {
    tracker alive;
    std::string url(req.query_param("url").value_or("")), sent(req.body());
    const uvhttp_client_header_t headers[] = {{"X-Name", "n"}};
    auto found = co_await uvhttp::fetch(
        {.url = url.c_str(), .method = "POST", .headers = headers, .body = sent, .timeout = limit(req)});
    std::string text = std::to_string(found.status()) + " ";
    text.append(found.header("content-type").value_or("-")).append(" ").append(found.body());
    co_return uvhttp::text(200, std::move(text));
}

/* One for all requests: ?send puts a word into it, anything else takes one out. Made by the first on the loop. */
static std::unique_ptr<uvhttp::channel<std::string>> words;

static task<response> pass_word(request &req) {
    tracker alive;
    if (!words) words = std::make_unique<uvhttp::channel<std::string>>(2);
    if (req.query_param("close")) {
        words->close();
        co_return uvhttp::text(200, "closed");
    }
    if (auto word = req.query_param("send")) {
        co_await words->send(std::string(*word), limit(req));
        co_return uvhttp::text(200, "sent");
    }
    auto word = co_await words->receive(limit(req));
    co_return uvhttp::text(200, word ? *word : "at its end");
}

/* --- waits that are kept in a variable --- */

/* The code that co_await throws, or 0. */
template <class Wait> static task<int> code_of(Wait &wait) {
    try {
        (void)co_await wait;
    } catch (const uvhttp::error &error) {
        co_return error.code();
    }
    co_return UVHTTP_OK;
}

/* What ends the next wait of the coroutine too early is a wait before it that was still armed. */
static task<> sleep_whole(const char *after) {
    auto start = std::chrono::steady_clock::now();
    co_await uvhttp::sleep(60ms);
    if (std::chrono::steady_clock::now() - start < 55ms) throw std::runtime_error(after);
}

static void expect(bool holds, const char *what) {
    if (!holds) throw std::runtime_error(what);
}

static task<response> keep_descriptors(request &) {
    tracker alive;
    ends pair(true);
    uvhttp::socket in(std::exchange(pair.fds[0], -1));
    char memory[8];
    auto ready = uvhttp::readable(in.fd(), 1ms);
    expect(co_await code_of(ready) == UVHTTP_E_TIMEOUT, "readable");
    auto reading = in.read(memory, 1ms);
    expect(co_await code_of(reading) == UVHTTP_E_TIMEOUT, "read");
    expect(write(pair.fds[1], "x", 1) == 1, "write");
    co_await sleep_whole("readable or read");
    expect(co_await code_of(ready) == UVHTTP_OK && co_await reading == 1, "ready and read the second time");
    std::string many(8 << 20, 'x');
    auto writing = in.write(many, 1ms);
    expect(co_await code_of(writing) == UVHTTP_E_TIMEOUT, "write that is not taken");
    while (recv(pair.fds[1], many.data(), many.size(), MSG_DONTWAIT) > 0) {
    }
    co_await sleep_whole("write");
    co_return uvhttp::text(200, "kept");
}

static task<response> keep_refused(request &) {
    tracker alive;
    ends pipe(false);
    uvhttp_fd_watcher_t other{};
    uvhttp::check(uvhttp_fd_watcher_start(
        &other, pipe.fds[0], UVHTTP_READABLE, [](uvhttp_fd_watcher_t *, void *) {}, nullptr));
    auto ready = uvhttp::readable(pipe.fds[0], 20ms);
    int code = co_await code_of(ready); /* one can wait for a descriptor */
    uvhttp_fd_watcher_stop(&other);
    expect(code != UVHTTP_OK && code != UVHTTP_E_TIMEOUT, "watched twice");
    co_await sleep_whole("the timer of a wait that could not begin");
    co_return uvhttp::text(200, "kept");
}

static task<response> keep_channel(request &) {
    tracker alive;
    uvhttp::channel<std::string> channel(1);
    auto receiving = channel.receive(1ms);
    expect(co_await code_of(receiving) == UVHTTP_E_TIMEOUT, "receive");
    co_await channel.send("a");
    co_await sleep_whole("receive");
    auto sending = channel.send("b", 1ms);
    expect(co_await code_of(sending) == UVHTTP_E_TIMEOUT, "send");
    expect(co_await receiving == "a", "received the second time");
    co_await sleep_whole("send");
    expect(co_await code_of(receiving) == UVHTTP_E_TIMEOUT, "what was not sent in time was sent");
    co_await sending;
    expect(co_await receiving == "b", "sent the second time");
    expect(co_await code_of(sending) == UVHTTP_E_STATE, "sent twice");
    co_return uvhttp::text(200, "kept");
}

static task<response> keep_others(request &req, uvhttp::server &server) {
    tracker alive;
    std::string to(req.query_param("to").value_or("")), url = "http://" + to + "/hello", silent = "http://";
    silent.append(req.query_param("silent").value_or("")).append("/");
    auto late = uvhttp::fetch({.url = silent.c_str(), .timeout = 1ms});
    expect(co_await code_of(late) == UVHTTP_E_TIMEOUT, "fetch");
    co_await sleep_whole("fetch");
    auto asking = uvhttp::fetch({.url = url.c_str()});
    for (int i = 0; i < 2; i++) expect((co_await asking).status() == 200, "asked again");
    auto connecting = uvhttp::connect(to.c_str(), 10s);
    for (int i = 0; i < 2; i++) expect((co_await connecting).fd() >= 0, "connected again");
    auto sleeping = uvhttp::sleep(1ms);
    for (int i = 0; i < 2; i++) co_await sleeping;
    auto own = std::make_unique<int>(42);
    auto working = server.work([own = std::move(own)] { return *own; });
    expect(co_await working == 42, "worked");
    expect(co_await code_of(working) == UVHTTP_E_STATE, "worked twice");
    auto once = nested(0, 0);
    expect(co_await std::move(once) == 0, "a task");
    try {
        co_await std::move(once);
        expect(false, "a task twice");
    } catch (const uvhttp::error &error) {
        expect(error.code() == UVHTTP_E_STATE, "a task twice");
    }
    co_return uvhttp::text(200, "kept");
}

/* A wait that lives longer than the coroutine: ?wait waits for it, anything else makes it ready. */
static task<response> keep_longer(request &req) {
    static auto *pipe = new ends(false);
    static auto *ready = new auto(uvhttp::readable(pipe->fds[0], 300s));
    if (req.query_param("wait")) {
        tracker alive;
        co_await *ready;
        co_return uvhttp::text(200, "ready");
    }
    expect(write(pipe->fds[1], "x", 1) == 1, "write");
    co_await sleep_whole("somebody else");
    co_return uvhttp::text(200, co_await code_of(*ready) == UVHTTP_OK ? "ready" : "not ready");
}

/* Responds with the name of what was thrown. */
template <class F> static auto named(F handler) {
    return [handler](request &req) -> task<response> {
        int code = UVHTTP_OK;
        try {
            co_return co_await handler(req);
        } catch (const uvhttp::error &error) {
            code = error.code();
        }
        co_return uvhttp::text(200, uvhttp_error_name(code));
    };
}

static task<response> ask_self(request &req) {
    tracker alive;
    std::string url("http://");
    url.append(req.query_param("at").value_or("")).append("/wait?ms=0");
    auto found = co_await uvhttp::fetch({.url = url.c_str(), .timeout = 5000ms});
    co_return uvhttp::text(found.status(), found.body());
}

static void add_waits(uvhttp::server &server) {
    server.get("/ask_self", ask_self);
    server.get("/descriptor", named(wait_descriptor));
    server.get("/interrupted", named(wait_interrupted));
    server.get("/write", named(wait_write));
    server.get("/talk", named(talk));
    server.post("/fetch", named(ask_other));
    server.get("/channel", named(pass_word));
}

static void add_throwing(uvhttp::server &server) {
    server.get("/throw/sync", [](request &) -> response { throw std::runtime_error("sync"); });
    server.get("/throw/reply", [](request &, reply &res) {
        res.header("X-Kept", "yes").text(200, "half");
        throw 5;
    });
    server.get("/throw/begin", [](request &) -> task<response> {
        tracker alive;
        throw std::runtime_error("begin");
        co_return response();
    });
    server.get("/throw/later", [](request &) -> task<response> {
        tracker alive;
        co_await fail_later();
        co_return uvhttp::text(200, "never");
    });
    server.get("/throw/caught", [](request &) -> task<response> {
        std::string text;
        try {
            co_await fail_later();
        } catch (const std::exception &error) {
            text = error.what();
        }
        co_return uvhttp::text(200, std::move(text));
    });
    server.get("/throw/status", [](request &) { return uvhttp::text(999, "no such status"); });
    server.get("/throw/header",
               [](request &) -> task<response> { co_return uvhttp::text(200, "x").header("X-Smuggled", "a\r\nb: c"); });
}

static void add_responses(uvhttp::server &server) {
    server.get("/hello", [](request &) { return uvhttp::text(200, "Hello, World!"); });
    server.get("/buffer", [](request &req) {
        char text[64];
        std::snprintf(text, sizeof text, "from a buffer on the stack %d", static_cast<int>(req.method()));
        return uvhttp::response(200, "text/plain", text);
    });
    server.any("/echo", [](request &req) { return uvhttp::response(200, "text/plain", req.body()); });
    server.get("/reply", [](request &req, reply &res) { res.header("X-Host", "h").send(201, "a/b", req.path()); });
    server.get("/empty", [](request &) { return uvhttp::empty(204); });
    server.get("/hints", [](request &, reply &res) {
        res.interim(103, {{"Link", "</a.css>"}, {"Link", "</b.css>"}});
        uvhttp::deferred later = res.defer();
        if (later.interim(102) != UVHTTP_OK || later.text(200, "hinted") != UVHTTP_OK) std::abort();
    });
    server.get("/redirect", [](request &, reply &res) { res.redirect(303, "/hello"); });
    server.get("/nothing", [](request &) { return response(); });
    server.get("/nothing/later", [](request &) -> task<response> {
        co_await uvhttp::sleep(1ms);
        co_return response();
    });
    server.get("/later", [](request &, reply &res) {
        std::thread([later = res.defer()] {
            auto copy = later;
            copy.header("X-Thread", "yes");
            copy.send(200, "text/plain", "from a thread");
        }).detach();
    });
    server.get("/dropped", [](request &, reply &res) { (void)uvhttp::deferred(res.defer()); });
    server.get("/move", [text = std::make_unique<std::string>("moved into its lambda")](request &) {
        return uvhttp::text(200, *text);
    });
}

/* --- the same in C --- */

struct c_wait {
    uvhttp_timer_t timer;
    uvhttp_deferred_t *deferred;
};

static void c_response(uvhttp_response_t *res, void *) {
    static const char body[] = "the same literal, which is longer than a short string\n";
    if (res) uvhttp_response_send_static(res, 200, "text/plain; charset=utf-8", body, sizeof body - 1);
}

static void c_wake(uvhttp_timer_t *, void *user) {
    auto *wait = static_cast<c_wait *>(user);
    uvhttp_deferred_run(wait->deferred, c_response, nullptr);
    uvhttp_deferred_release(wait->deferred);
}

static void c_handler(uvhttp_request_t *req, uvhttp_response_t *res, void *) {
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    auto *wait = static_cast<c_wait *>(uvhttp_request_alloc(req, sizeof(c_wait)));
    *wait = c_wait{{}, deferred};
    uvhttp_timer_start(&wait->timer, 0, c_wake, wait);
}

/* --- */

static void add_field(const char *name, const char *, const char *, const char *, void *user) {
    static_cast<std::string *>(user)->append(name).append("\n");
}

int main(int argc, char **argv) try {
    const uvhttp_allocator_t allocator{hook_malloc, hook_calloc, hook_realloc, hook_free, nullptr};
    uvhttp::check(uvhttp_set_allocator(&allocator));
    uvhttp_log_level_t level = uvhttp_log_get_level();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE); /* the mistake is logged, too */
    try {
        uvhttp::server wrong{{.backlog = 0}};
        return 3;
    } catch (const uvhttp::error &error) {
        if (error.code() != UVHTTP_E_CONFIG || !std::string_view(error.what()).starts_with("backlog")) return 3;
    }
    uvhttp_log_set_level(level);
    uvhttp::server made{{.io_threads = 1, .drain_timeout = 1, .performance = {.enable_statistics = true}}};
    uvhttp::server server(std::move(made));
    server.on_exception([](std::exception_ptr exception, const request &req) {
        hooked++;
        if (req.path() == "/throw/sync") std::rethrow_exception(exception); /* must not get far */
    });
    server.on_ready([&server] { ready_calls += uvhttp_server_ready(server.native()); });
    add_responses(server);
    add_throwing(server);
    add_waits(server);
    server.get("/wait", wait);
    server.get("/block", end_in_a_blocked_iteration);
    server.get("/literal", literal);
    server.get("/content", made_once);
    server.get("/at_once", at_once);
    server.get("/nested", [](request &req) -> task<response> {
        co_return uvhttp::text(200, std::to_string(co_await nested(number(req, "depth", 3), number(req, "ms", 1))));
    });
    server.get("/work", [&server](request &req) -> task<response> {
        tracker alive;
        long ms = number(req, "ms", 0);
        auto own = std::make_unique<int>(0);
        co_await server.work([ms] { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); });
        int number = co_await server.work([](std::unique_ptr<int> it) { return *it += 42; }, std::move(own));
        std::string thrown;
        try {
            co_await server.work([] { throw std::runtime_error("thrown by a worker"); });
        } catch (const std::runtime_error &error) {
            thrown = error.what();
        }
        co_return uvhttp::text(200, std::to_string(number) + " " + thrown);
    });
    server.get("/kept/descriptors", keep_descriptors);
    server.get("/kept/refused", keep_refused);
    server.get("/kept/channel", keep_channel);
    server.get("/kept/others", [&server](request &req) { return keep_others(req, server); });
    server.get("/kept/longer", named(keep_longer));
    uvhttp_route_options_t streamed{};
    streamed.stream_body = true;
    server.put("/body", read_body, streamed);
    server.get("/fail", [](request &req) {
        long new_number = number(req, "new", 0), hook_number = number(req, "hook", 0);
        new_to_fail = new_number;
        hook_to_fail = hook_number;
        return uvhttp::text(200, "the next");
    });
    server.get("/fields", [](request &) {
        uvhttp_server_config_t defaults;
        std::string names;
        uvhttp_server_config_default(&defaults);
        uvhttp_server_config_fields(&defaults, add_field, &names);
        return uvhttp::text(200, std::move(names));
    });
    server.get("/stats", [&server](request &) {
        char text[200];
        std::snprintf(text, sizeof text,
                      R"({"live":%ld,"exceptions":%ld,"hooked":%ld,"ready":%ld,"news":%ld,"hook_calls":%ld})",
                      live.load(), static_cast<long>(server.exceptions()), hooked.load(), ready_calls.load(),
                      news.load(), hook_calls.load());
        return uvhttp::json(200, text);
    });
    uvhttp_get(server.native(), "/c", c_handler, nullptr);
    int status = server.run(argc > 1 ? argv[1] : "127.0.0.1:8080");
    if (live != 0) std::fprintf(stderr, "cpp_test_server: %ld frames live on\n", live.load());
    return status != 0 || live != 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "cpp_test_server: %s\n", error.what());
    return 1;
}
