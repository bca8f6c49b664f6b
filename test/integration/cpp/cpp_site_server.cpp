/* What test_cpp_site.py asks of the C++ interface: groups, static files, TLS, WebSocket, cookies, forms, and several
 * waits at once, whose frames are counted.
 *
 *   cpp_site_server ADDRESS TLS_ADDRESS DIRECTORY */
#include <atomic>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <uvhttp.hpp>

using namespace std::chrono_literals;
using uvhttp::request, uvhttp::response, uvhttp::task;

static std::atomic<long> live; /* trackers: variables of coroutines that have not been destroyed */

struct tracker {
    tracker() noexcept {
        live++;
    }
    tracker(const tracker &) = delete;
    tracker &operator=(const tracker &) = delete;
    ~tracker() {
        live--;
    }
};

/* --- groups --- */

static response show_mode(request &) {
    return uvhttp::text(200, uvhttp_loop_uv() ? "loop" : "worker");
}

static uvhttp_flow_t mark(uvhttp_request_t *, uvhttp_response_t *res, void *user) {
    uvhttp_response_header_add(res, "X-Group", static_cast<const char *>(user));
    return UVHTTP_NEXT;
}

static uvhttp_middleware_t marked(const char *name) {
    uvhttp_middleware_t made{};
    made.run = mark;
    made.user = const_cast<char *>(name);
    return made;
}

static void add_groups(uvhttp::server &server, const char *directory) {
    uvhttp_route_options_t on_workers{}, on_loop{};
    on_workers.exec = UVHTTP_EXEC_WORKER;
    on_workers.body_size_max = 10;
    on_loop.exec = UVHTTP_EXEC_LOOP;
    uvhttp::route_group api = server.group("/api");
    api.use(marked("api")).defaults(on_workers).get("/mode", show_mode).get("/loop", show_mode, on_loop);
    api.post("/size", [](request &req) { return uvhttp::text(200, std::to_string(req.body().size())); });
    api.get("/task", [](request &) -> task<response> {
        co_await uvhttp::sleep(1ms);
        co_return uvhttp::text(200, uvhttp_loop_uv() ? "loop" : "worker");
    });
    api.group("/v1").use(marked("v1")).get("/mode", show_mode).files("/files", directory);
    server.files("/files", directory);
}

/* What is refused throws, and names the reason. */
static bool refusals_throw() {
    uvhttp_log_level_t level = uvhttp_log_get_level();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    int right = 0;
    uvhttp_route_options_t on_workers{};
    on_workers.exec = UVHTTP_EXEC_WORKER;
    try {
        uvhttp::server server;
        server.group("/g").get("/{id}", show_mode);
    } catch (const uvhttp::error &problem) {
        right += problem.code() == UVHTTP_E_ROUTE_PATTERN && std::strstr(problem.what(), ":id") != nullptr;
    }
    try {
        uvhttp::server server;
        server.get(
            "/a", [](request &) -> task<response> { co_return uvhttp::text(200, "a"); }, on_workers);
    } catch (const uvhttp::error &problem) {
        right += problem.code() == UVHTTP_E_INVALID;
    }
    try {
        uvhttp::server server;
        server.files("/files", "/no/such/directory");
    } catch (const uvhttp::error &problem) {
        right += problem.code() == UVHTTP_E_STATIC_ROOT;
    }
    try {
        uvhttp::tls missing("/no/such/certificate", "/no/such/key");
    } catch (const uvhttp::error &problem) {
        right += problem.code() == UVHTTP_E_TLS_CERTIFICATE;
    }
    uvhttp_log_set_level(level);
    return right == 4;
}

/* --- WebSocket --- */

static void add_websocket(uvhttp::server &server) {
    uvhttp::websocket_handlers chat;
    chat.upgrade = [](const request &req, uvhttp::reply &reply) {
        if (req.query() == "throw") throw std::runtime_error("thrown by upgrade");
        if (req.query() != "refuse") return true;
        reply.text(403, "refused");
        return false;
    };
    chat.open = [](uvhttp::websocket ws) {
        ws.subscribe("all");
        ws.send("welcome");
    };
    chat.message = [](uvhttp::websocket ws, uvhttp::websocket_message message) {
        if (message.data == "throw") throw std::runtime_error("thrown by message");
        if (message.data == "thread") {
            std::thread([ref = ws.ref()] { ref.send("from a thread"); }).detach();
        } else if (message.data == "publish") {
            ws.publish("all", "published");
        } else if (message.data == "close") {
            ws.close(4000, "asked for");
        } else if (message.is_text) {
            ws.send(message.data);
        } else {
            ws.send_binary(message.data);
        }
    };
    server.websocket("/ws", std::move(chat));
    server.post("/publish", [&server](request &req) {
        server.publish("all", req.body());
        return uvhttp::empty(204);
    });
}

/* --- cookies and forms --- */

static response show_form(request &req) {
    std::string text;
    try {
        uvhttp::form form(req);
        for (auto [name, value] : form.fields()) text.append(name).append("=").append(value).append(";");
        for (const auto &file : form.files())
            text.append(file.field()).append(":").append(file.name()).append(":").append(file.data()).append(";");
        if (form.field("missing") || form.file("missing")) text = "it has what is missing";
    } catch (const uvhttp::error &problem) {
        return uvhttp::text(uvhttp_error_http_status(problem.code()), uvhttp_error_name(problem.code()));
    }
    return uvhttp::text(200, std::move(text));
}

static void add_forms(uvhttp::server &server) {
    server.post("/form", show_form);
    server.get("/cookies", [](request &req) {
        auto seen = req.cookie("seen");
        uvhttp::cookie made;
        made.name = "seen";
        made.value = "yes";
        made.http_only = true;
        made.max_age_s = 60;
        return uvhttp::text(200, seen.value_or("no")).cookie(std::move(made));
    });
    server.get("/cookies/reply", [](request &, uvhttp::reply &reply) {
        uvhttp::cookie made;
        made.name = "a";
        made.path = "/p";
        reply.cookie(made).text(200, "set");
    });
}

/* --- content types that are variables --- */

static std::string type_of(std::string_view path) {
    return "application/vnd.uvhttp-test" + std::string(path.substr(0, 5)).replace(0, 1, ".");
}

static response typed(request &req) {
    std::string type = type_of(req.path());
    return {200, type.c_str(), "typed"};
}

static task<response> typed_later(request &req) {
    std::string type = type_of(req.path());
    co_await uvhttp::sleep(1ms);
    co_return response(200, type.c_str(), std::string("typed later"));
}

/* --- texts with a NUL --- */

static response with_nul(request &req) {
    const std::string text("a\0b", 3);
    uvhttp::cookie made;
    made.name = req.query() == "cookie" ? text : "a";
    made.path = req.query() == "path" ? "/" + text : "/";
    return uvhttp::text(200, "sent")
        .header(req.query() == "name" ? text : "X-A", req.query() == "value" ? text : "a")
        .cookie(std::move(made));
}

/* --- several waits at once --- */

static task<int> after(std::chrono::milliseconds time, int value) {
    tracker alive;
    co_await uvhttp::sleep(time);
    co_return value;
}

static task<void> nothing(std::chrono::milliseconds time) {
    tracker alive;
    co_await uvhttp::sleep(time);
}

static task<int> throws(std::chrono::milliseconds time) {
    tracker alive;
    if (time > 0ms) co_await uvhttp::sleep(time);
    throw std::runtime_error("thrown by a branch");
}

static task<int> at_once(int value) {
    co_return value;
}

/* 300 ms in sum, and the longest 100. */
static task<response> wait_for_all(request &) {
    auto begun = std::chrono::steady_clock::now();
    auto [a, b, c, d] = co_await uvhttp::when_all(after(100ms, 1), after(100ms, 2), nothing(100ms), at_once(4));
    static_assert(std::is_same_v<decltype(c), std::monostate>);
    bool at_the_same_time = std::chrono::steady_clock::now() - begun < 290ms;
    auto now = co_await uvhttp::when_all(at_once(10), at_once(20));
    co_await uvhttp::when_all(uvhttp::sleep(1ms), nothing(1ms)); /* what is not a task */
    int sum = a + b + d + std::get<0>(now) + std::get<1>(now);
    co_return uvhttp::text(200, std::to_string(sum) + (at_the_same_time ? " at once" : " one after the other"));
}

static task<response> wait_for_any(request &) {
    auto first = co_await uvhttp::when_any(after(10s, 1), after(5ms, 2), uvhttp::sleep(10s));
    std::string text =
        std::to_string(first.index()) + " " + std::to_string(std::get<1>(first)) + " live " + std::to_string(live);
    auto ready = co_await uvhttp::when_any(at_once(3), after(10s, 4));
    text += " " + std::to_string(ready.index()) + " live " + std::to_string(live);
    auto late = co_await uvhttp::when_any(nothing(10s), uvhttp::sleep(1ms));
    text += " " + std::to_string(late.index());
    co_return uvhttp::text(200, std::move(text));
}

static task<response> fail_in_branches(request &) {
    std::string text;
    for (auto time : {0ms, 5ms}) {
        try {
            co_await uvhttp::when_all(after(10s, 1), throws(time), after(10s, 2));
        } catch (const std::runtime_error &problem) {
            text.append(problem.what()).append(" live ").append(std::to_string(live)).append("; ");
        }
        try {
            co_await uvhttp::when_any(after(10s, 1), throws(time));
        } catch (const std::runtime_error &) {
            text.append("any live ").append(std::to_string(live)).append("; ");
        }
    }
    co_return uvhttp::text(200, std::move(text));
}

static task<int> join_later(uvhttp::spawned<int> &job) {
    co_return co_await job;
}

static task<response> spawn_some(request &) {
    auto slow = uvhttp::spawn(after(20ms, 7));
    auto ready = uvhttp::spawn(at_once(8));
    auto failing = uvhttp::spawn(throws(1ms));
    auto cancelled = uvhttp::spawn(after(10s, 9));
    auto left = uvhttp::spawn(after(10s, 10)); /* the end of this coroutine cancels it */
    auto awaited = uvhttp::spawn(after(10s, 11));
    auto joining = uvhttp::spawn(join_later(awaited));
    std::string text = std::to_string(live) + (ready.done() && !slow.done() ? " begun; " : " not begun; ");
    cancelled.cancel();
    awaited.cancel();
    text += std::to_string(co_await slow + co_await ready) + "; ";
    for (auto *job : {&failing, &cancelled, &joining, &slow}) {
        try {
            co_await *job;
            text += "value; ";
        } catch (const uvhttp::error &problem) {
            text.append(uvhttp_error_name(problem.code())).append("; ");
        } catch (const std::runtime_error &problem) {
            text.append(problem.what()).append("; ");
        }
    }
    co_return uvhttp::text(200, text + std::to_string(live) + (left.done() ? "" : " left"));
}

static task<int> cancel_later(uvhttp::spawned<int> &job, std::string &said) {
    struct noted {
        explicit noted(std::string &to) : text(to) {}
        noted(const noted &) = delete;
        noted &operator=(const noted &) = delete;
        ~noted() {
            text += "destroyed ";
        }
        std::string &text;
    } destroyed(said);
    co_await uvhttp::sleep(1ms);
    job.cancel();
    said += "cancelled ";
    co_return 0;
}

/* What the waiter owns cancels the task that it awaits: the waiter then destroys the caller of cancel. */
static task<response> cancel_from_below(request &) {
    std::string said;
    {
        auto job = uvhttp::spawn(after(10s, 1));
        auto canceller = uvhttp::spawn(cancel_later(job, said));
        try {
            co_await job;
        } catch (const uvhttp::error &problem) {
            said.append(uvhttp_error_name(problem.code())).append(" ");
        }
    }
    auto job = uvhttp::spawn(after(10s, 2));
    try {
        co_await uvhttp::when_any(job, cancel_later(job, said));
    } catch (const uvhttp::error &problem) {
        said.append(uvhttp_error_name(problem.code()));
    }
    {
        auto other = uvhttp::spawn(after(10s, 3));
        auto joining = uvhttp::spawn(join_later(other));
        other.cancel(); /* both end before the waiter is woken */
    }
    co_await uvhttp::sleep(1ms);
    co_return uvhttp::text(200, std::move(said));
}

/* A cancelled wait for the body: the bytes that come afterwards are those of the next one. */
static task<response> cancel_a_piece(request &req) {
    tracker alive;
    uvhttp::body_stream body(req);
    std::string text;
    for (;;) {
        auto first = co_await uvhttp::when_any(body.next(), uvhttp::sleep(20ms));
        if (first.index() == 1) {
            text += '.';
            co_await uvhttp::sleep(60ms); /* nobody waits for the body */
            continue;
        }
        auto piece = std::get<0>(first);
        if (!piece) break;
        text.append(*piece);
    }
    co_return uvhttp::text(200, std::move(text));
}

/* Two coroutines cannot wait for one body; it goes to the first. */
static task<std::string> next_of(uvhttp::body_stream &body) {
    auto piece = co_await body.next();
    co_return piece ? std::string(*piece) : "the end";
}
static task<response> read_at_once(request &req) {
    tracker alive;
    uvhttp::body_stream body(req);
    auto reading = uvhttp::spawn(next_of(body));
    std::string text;
    try {
        text = co_await next_of(body);
    } catch (const uvhttp::error &problem) {
        text = uvhttp_error_name(problem.code());
    }
    co_return uvhttp::text(200, text + " " + co_await reading);
}

static task<int> await_other(task<int> &other) {
    co_return co_await std::move(other);
}

/* A task in a variable of another coroutine than the one that awaits it. */
static task<response> cancel_a_wait(request &) {
    auto held = after(10ms, 1);
    auto first = co_await uvhttp::when_any(await_other(held), uvhttp::sleep(1ms));
    std::string text = std::to_string(first.index()) + " live " + std::to_string(live);
    co_await uvhttp::sleep(30ms); /* the task would have ended */
    try {
        (void)co_await std::move(held);
    } catch (const uvhttp::error &problem) {
        text.append(" ").append(uvhttp_error_name(problem.code()));
    }
    co_return uvhttp::text(200, std::move(text));
}

static void add_tasks(uvhttp::server &server) {
    uvhttp_route_options_t streamed{};
    streamed.stream_body = true;
    server.post("/body/late", cancel_a_piece, streamed);
    server.post("/body/twice", read_at_once, streamed);
    server.get("/held", cancel_a_wait);
    server.get("/nul", with_nul);
    server.get("/type", typed);
    server.get("/type/later", typed_later);
    server.get("/all", wait_for_all);
    server.get("/any", wait_for_any);
    server.get("/branches/fail", fail_in_branches);
    server.get("/spawn", spawn_some);
    server.get("/cancel", cancel_from_below);
    server.get("/long", [](request &) -> task<response> {
        auto job = uvhttp::spawn(after(1000s, 1));
        co_await uvhttp::when_all(after(1000s, 2), nothing(1000s));
        co_return uvhttp::text(200, "never");
    });
    server.get("/live", [](request &) { return uvhttp::text(200, std::to_string(live)); });
    server.get("/exceptions", [&server](request &) { return uvhttp::text(200, std::to_string(server.exceptions())); });
}

int main(int argc, char **argv) try {
    if (argc != 4 || !refusals_throw()) return 2;
    uvhttp::server server{{.io_threads = 1, .drain_timeout = 1}};
    add_groups(server, argv[3]);
    add_websocket(server);
    add_forms(server);
    add_tasks(server);
    uvhttp::tls tls = uvhttp::tls::development();
    uvhttp::tls copy = tls;
    server.listen(argv[2], copy);
    int status = server.run(argv[1]);
    if (live != 0) std::fprintf(stderr, "cpp_site_server: %ld frames live on\n", live.load());
    return status != 0 || live != 0;
} catch (const std::exception &problem) {
    std::fprintf(stderr, "cpp_site_server: %s\n", problem.what());
    return 1;
}
