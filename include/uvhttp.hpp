/* Owns: the C++20 interface over the C interface: a server object, lambdas as handlers, coroutines, exceptions.
 * native() returns the C handle for everything else. May include: the public headers.
 *
 * Failing calls throw uvhttp::error. An exception of a handler becomes 500, or 503 when out of memory, and is counted.
 * Threads and lifetimes are those of the C functions: docs/guide/cpp.md. */
#ifndef UVHTTP_HPP
#define UVHTTP_HPP

#include <uvhttp/config.hpp>
#include <uvhttp/exchange.hpp>
#include <uvhttp/forms.hpp>
#include <uvhttp/tls.hpp>

#include <atomic>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace uvhttp {

/* --- coroutines --- */

template <class T = void> class task;

namespace detail {

struct coroutine; /* a handler that is a coroutine */
void ended(coroutine &root) noexcept;

struct promise_base {
    std::coroutine_handle<> continuation{}; /* the coroutine that awaits this task */
    coroutine *root = nullptr;              /* of the handler's task, which no coroutine awaits */
    std::exception_ptr exception{};

    struct final_awaiter {
        bool await_ready() const noexcept {
            return false;
        }
        template <class P> std::coroutine_handle<> await_suspend(std::coroutine_handle<P> self) const noexcept {
            promise_base &promise = self.promise();
            if (promise.continuation) return promise.continuation;
            if (promise.root) ended(*promise.root); /* destroys the frame: do not touch it afterwards */
            return std::noop_coroutine();
        }
        void await_resume() const noexcept {}
    };

    std::suspend_always initial_suspend() const noexcept {
        return {};
    }
    final_awaiter final_suspend() const noexcept {
        return {};
    }
    void unhandled_exception() noexcept {
        exception = std::current_exception();
    }
};

template <class T> struct promise : promise_base {
    std::optional<T> value{};
    task<T> get_return_object() noexcept;
    template <class U>
    requires std::convertible_to<U, T>
    void return_value(U &&result) {
        value.emplace(std::forward<U>(result));
    }
    T take() {
        if (exception) std::rethrow_exception(exception);
        return std::move(*value);
    }
};

template <> struct promise<void> : promise_base {
    task<void> get_return_object() noexcept;
    void return_void() const noexcept {}
    void take() const {
        if (exception) std::rethrow_exception(exception);
    }
};

} // namespace detail

/** A coroutine that starts when it is awaited. task<response> is a handler; other tasks are awaited by a coroutine. A
 * task is destroyed together with the coroutine that awaits it, at any wait. Everything runs on the loop's thread. */
template <class T> class [[nodiscard]] task {
  public:
    using promise_type = detail::promise<T>;
    using handle = std::coroutine_handle<promise_type>;

    explicit task(handle frame) noexcept : frame_(frame) {}
    task(task &&other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
    task &operator=(task &&) = delete;
    ~task() {
        if (frame_) frame_.destroy();
    }

    auto operator co_await() &&noexcept {
        struct awaiter { /* it owns the frame, which is destroyed with the coroutine that awaits it */
            explicit awaiter(handle its) noexcept : frame(its) {}
            awaiter(const awaiter &) = delete;
            awaiter &operator=(const awaiter &) = delete;
            ~awaiter() {
                if (frame) frame.destroy();
            }
            bool await_ready() const {
                if (!frame) throw error(UVHTTP_E_STATE); /* moved, or awaited before */
                return false;
            }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) const noexcept {
                frame.promise().continuation = awaiting;
                return frame;
            }
            T await_resume() const {
                return frame.promise().take();
            }
            handle frame;
        };
        return awaiter(release());
    }

    handle release() noexcept {
        return std::exchange(frame_, nullptr);
    }

  private:
    handle frame_;
};

template <class T> task<T> detail::promise<T>::get_return_object() noexcept {
    return task<T>(std::coroutine_handle<promise<T>>::from_promise(*this));
}
inline task<void> detail::promise<void>::get_return_object() noexcept {
    return task<void>(std::coroutine_handle<promise<void>>::from_promise(*this));
}

namespace detail {

/* Before version 13, g++ copies some temporaries byte by byte into the coroutine's frame if the expression contains
 * co_await. Temporaries made from braces are affected, such as a closure with captures: their members are destroyed
 * twice. Objects with a constructor, and trivially copyable objects, are not affected. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
inline constexpr bool copies_temporaries = true;
#else
inline constexpr bool copies_temporaries = false;
#endif
template <class T> inline constexpr bool callable_is_safe = !copies_temporaries || std::is_trivially_copyable_v<T>;
template <class T>
inline constexpr bool item_is_safe = callable_is_safe<T> || !(std::is_aggregate_v<T> || requires { &T::operator(); });

/* A base for everything that can be awaited, as a temporary or as a variable. Derived has ready(), arm(coroutine),
 * disarm() and result(). It is armed only from the suspension of the coroutine until its resumption or destruction. An
 * arm() that throws leaves nothing armed. disarm() stops everything that could still resume the coroutine.
 * as_temporary: whether `co_await make_it(...)` is compiled correctly. */
template <class Derived, bool as_temporary = true> class awaitable {
    class wait { /* lives in the coroutine's frame and is destroyed with it, even if the awaitable itself lives longer
                  */
      public:
        explicit wait(Derived &it) noexcept : it_(it) {}
        wait(const wait &) = delete;
        wait &operator=(const wait &) = delete;
        ~wait() {
            disarm();
        }
        bool await_ready() {
            if (it_.awaited_) throw error(UVHTTP_E_STATE);
            return it_.ready();
        }
        void await_suspend(std::coroutine_handle<> waiter) {
            it_.arm(waiter);
            armed_ = it_.awaited_ = true;
        }
        decltype(auto) await_resume() {
            disarm();
            return it_.result();
        }

      private:
        void disarm() noexcept {
            if (!armed_) return;
            it_.disarm();
            armed_ = it_.awaited_ = false;
        }

        Derived &it_;
        bool armed_ = false;
    };

  public:
    awaitable() noexcept = default;
    awaitable(const awaitable &) = delete;
    awaitable &operator=(const awaitable &) = delete;

    wait operator co_await() &noexcept {
        return wait(static_cast<Derived &>(*this));
    }
    wait operator co_await() &&noexcept {
        static_assert(as_temporary,
                      "this g++ would destroy what the awaited temporary owns twice; keep it in a variable: "
                      "auto job = server.work(...); co_await job; (docs/guide/cpp.md)");
        return wait(static_cast<Derived &>(*this));
    }

  private:
    bool awaited_ = false; /* a coroutine waits for it */
};

} // namespace detail

/** The result of uvhttp::sleep. */
class [[nodiscard]] sleeping : public detail::awaitable<sleeping> {
  public:
    explicit sleeping(std::uint64_t ms) noexcept : ms_(ms) {}

  private:
    friend class detail::awaitable<sleeping>;

    bool ready() const noexcept {
        return false;
    }
    void arm(std::coroutine_handle<> waiter) {
        waiter_ = waiter;
        check(uvhttp_timer_start(&timer_, ms_, wake, this));
    }
    void disarm() noexcept {
        uvhttp_timer_stop(&timer_);
    }
    void result() const noexcept {}

    static void wake(uvhttp_timer_t *, void *self) {
        static_cast<sleeping *>(self)->waiter_.resume();
    }

    uvhttp_timer_t timer_{};
    std::coroutine_handle<> waiter_{};
    std::uint64_t ms_;
};

/** Suspends the coroutine for at least `time`: co_await uvhttp::sleep(200ms). 0 lets other ready work run first. Throws
 * UVHTTP_E_STATE outside a loop's thread. */
template <class Rep, class Period> sleeping sleep(std::chrono::duration<Rep, Period> time) noexcept {
    auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
    return sleeping(ms > 0 ? static_cast<std::uint64_t>(ms) : 0);
}

namespace detail {

/* The job has its own memory, because a thread may still run it after the coroutine was destroyed. */
template <class F, class... Args> struct job {
    using result = std::invoke_result_t<F, Args...>;

    template <class... From>
    explicit job(F &&f, From &&...from) : run(std::move(f)), args(std::forward<From>(from)...) {}

    static void run_it(void *user) noexcept {
        job &it = *static_cast<job *>(user);
        try {
            if constexpr (std::is_void_v<result>)
                std::apply(std::move(it.run), std::move(it.args));
            else
                it.value.emplace(std::apply(std::move(it.run), std::move(it.args)));
        } catch (...) {
            it.thrown = std::current_exception();
        }
    }
    static void done(void *user, int status) {
        std::unique_ptr<job> it(static_cast<job *>(user));
        if (!it->waiter) return;
        it->status = status;
        it->ended = true;
        it.release()->waiter.resume();
    }

    F run;
    std::tuple<Args...> args;
    std::conditional_t<std::is_void_v<result>, std::monostate, std::optional<result>> value{};
    std::exception_ptr thrown{};
    std::coroutine_handle<> waiter{}; /* null: no coroutine waits any more */
    int status = UVHTTP_OK;
    bool ended = false;
};

} // namespace detail

/** The result of server.work. It can be awaited once. */
template <bool as_temporary, class F, class... Args>
class [[nodiscard]] working : public detail::awaitable<working<as_temporary, F, Args...>, as_temporary> {
    using job = detail::job<F, Args...>;

  public:
    template <class... From>
    working(uvhttp_server_t *server, F &&run, From &&...from)
        : server_(server), job_(std::make_unique<job>(std::move(run), std::forward<From>(from)...)) {}

  private:
    template <class, bool> friend class detail::awaitable;

    bool ready() const {
        if (!job_ || job_->ended) throw error(UVHTTP_E_STATE);
        return false;
    }
    void arm(std::coroutine_handle<> waiter) {
        if (!uvhttp_loop_uv()) throw error(UVHTTP_E_STATE);
        job_->waiter = waiter;
        check(uvhttp_work(server_, job::run_it, job::done, job_.get()));
    }
    void disarm() noexcept {
        job_->waiter = nullptr;
        if (!job_->ended) (void)job_.release(); /* done() frees it */
    }
    typename job::result result() {
        check(job_->status);
        if (job_->thrown) std::rethrow_exception(job_->thrown);
        if constexpr (!std::is_void_v<typename job::result>) return std::move(*job_->value);
    }

    uvhttp_server_t *server_;
    std::unique_ptr<job> job_;
};

/** The body of a route with `stream_body`, in a coroutine that creates the object before its first wait:
 *
 *     uvhttp::body_stream body(req);
 *     while (auto piece = co_await body.next()) size += piece->size();
 *
 * The bytes are valid until the next co_await; the client is paused in between. If the body cannot be completed, the
 * library responds as <uvhttp/body.h> documents, and the coroutine is destroyed as if the client had gone. */
class body_stream {
    struct state { /* in the memory of the request, because callbacks may come after the coroutine has ended */
        uvhttp_request_t *request;
        std::coroutine_handle<> waiter{};
        uvhttp_str_t piece{};
        bool given = false, ended = false;
    };

  public:
    explicit body_stream(const request &req)
        : state_(static_cast<state *>(uvhttp_request_alloc(req.native(), sizeof(state)))) {
        if (!state_) throw error(UVHTTP_E_NOMEM);
        new (state_) state{.request = req.native()};
        check(uvhttp_request_on_body(req.native(), on_data, on_end, state_));
        check(uvhttp_request_pause_body(req.native()));
    }
    body_stream(const body_stream &) = delete;
    body_stream &operator=(const body_stream &) = delete;
    ~body_stream() {
        state_->waiter = nullptr;
        if (!state_->ended) (void)uvhttp_request_pause_body(state_->request);
    }

    /** The result of next. A wait that is cancelled pauses the body, and the next one gets its bytes. */
    class [[nodiscard]] next_piece : public detail::awaitable<next_piece> {
        friend class body_stream;
        friend class detail::awaitable<next_piece>;

        explicit next_piece(state *of) noexcept : at_(of) {}
        bool ready() const {
            if (at_->waiter) throw error(UVHTTP_E_STATE); /* another coroutine waits for it */
            return at_->ended;
        }
        void arm(std::coroutine_handle<> waiter) noexcept {
            at_->waiter = waiter;
            (void)uvhttp_request_resume_body(at_->request); /* on_abort reports a disconnected client */
        }
        void disarm() noexcept {
            if (!std::exchange(at_->waiter, nullptr) || at_->ended) return;
            (void)uvhttp_request_pause_body(at_->request);
        }
        std::optional<std::string_view> result() const noexcept {
            if (!std::exchange(at_->given, false)) return std::nullopt;
            return view(at_->piece);
        }

        state *at_;
    };
    next_piece next() noexcept {
        return next_piece(state_);
    }

  private:
    static void on_data(uvhttp_request_t *req, uvhttp_response_t *, uvhttp_str_t data, void *user) {
        auto *at = static_cast<state *>(user);
        at->piece = data;
        at->given = true;
        if (at->waiter) std::exchange(at->waiter, nullptr).resume();
        if (!at->waiter)
            (void)uvhttp_request_pause_body(req); /* the coroutine waits for something else, or has ended */
    }
    static void on_end(uvhttp_request_t *, uvhttp_response_t *, int status, void *user) {
        auto *at = static_cast<state *>(user);
        at->ended = true;
        if (status == UVHTTP_OK && at->waiter) std::exchange(at->waiter, nullptr).resume();
    }

    state *state_;
};

/* --- the server --- */

namespace detail {

/* The status of the response after an exception: 503 when out of memory (<uvhttp/error.h>), else 500. */
inline int status_of(const std::exception_ptr &exception) noexcept {
    try {
        std::rethrow_exception(exception);
    } catch (const error &problem) {
        return problem.code() == UVHTTP_E_NOMEM || problem.code() == UVHTTP_E_LIMIT ? 503 : 500;
    } catch (const std::bad_alloc &) {
        return 503;
    } catch (...) {
        return 500;
    }
}

struct route_base {
    virtual ~route_base() = default;
};

/* State that all routes of a server share. It keeps its address when the server is moved. */
struct core {
    uvhttp_server_t *server = nullptr;
    std::vector<std::unique_ptr<route_base>> routes{};
    std::atomic<std::uint64_t> exceptions{0};
    std::function<void(std::exception_ptr, const request &)> on_exception{};
    std::function<void()> on_ready{};

    /* Returns the status that the client receives. */
    int caught(const std::exception_ptr &exception, const request &req) noexcept {
        exceptions.fetch_add(1, std::memory_order_relaxed);
        try {
            if (on_exception) on_exception(exception, req);
        } catch (...) { /* an exception of the hook is ignored */
        }
        return status_of(exception);
    }
};

inline void fail(uvhttp_response_t *res, int status) noexcept {
    (void)uvhttp_response_text(res, status, status == 503 ? "Service Unavailable\n" : "Internal Server Error\n");
}

/* A running coroutine of a handler. It is in the memory of its request, which exists as long as the handle is held. The
 * frame is destroyed when the handler ends. The rest is destroyed when the response was made on the loop or the client
 * has disconnected. */
struct coroutine {
    request req;
    core &owner;
    deferred handle;
    std::coroutine_handle<promise<response>> frame{}; /* null: it has ended */
    std::optional<response> result{};                 /* empty after an exception */
    int failure = 0;                                  /* the status after an exception */

    static void start(uvhttp_request_t *req, uvhttp_response_t *res, core &owner, auto &handler) {
        deferred handle = reply(res).defer(); /* before the handler obtains views, which defer would invalidate */
        void *memory = uvhttp_request_alloc(req, sizeof(coroutine));
        if (!memory) {
            (void)handle.text(503, "Service Unavailable\n");
            return;
        }
        auto *self = new (memory) coroutine{request(req), owner, std::move(handle)};
        uvhttp_deferred_on_abort(self->handle.native(), on_abort, self);
        try {
            self->frame = handler(self->req).release();
        } catch (...) { /* no memory for the frame */
            self->failure = owner.caught(std::current_exception(), self->req);
            ended(*self);
            return;
        }
        self->frame.promise().root = self;
        self->frame.resume();
    }

    static void on_abort(uvhttp_deferred_t *, void *user) {
        auto *self = static_cast<coroutine *>(user);
        if (!self->frame) return; /* `finish` is still to be called */
        std::exchange(self->frame, nullptr).destroy();
        self->~coroutine();
    }

    static void finish(uvhttp_response_t *res, void *user) {
        auto *self = static_cast<coroutine *>(user);
        deferred last = std::move(self->handle); /* keeps the memory of *self */
        if (res) {
            try {
                if (self->result)
                    self->result->send(res);
                else
                    fail(res, self->failure);
            } catch (...) {
                fail(res, self->owner.caught(std::current_exception(), self->req));
            }
        }
        self->~coroutine();
    }
};

inline void ended(coroutine &self) noexcept {
    if (self.frame) {
        auto &promise = self.frame.promise();
        if (promise.exception)
            self.failure = self.owner.caught(promise.exception, self.req);
        else
            self.result = std::move(promise.value);
        std::exchange(self.frame, nullptr).destroy();
    }
    if (uvhttp_deferred_run(self.handle.native(), coroutine::finish, &self) == UVHTTP_OK) return;
    deferred last = std::move(self.handle); /* out of memory: the last reference gives a 500 */
    self.~coroutine();
}

template <class F> struct route final : route_base {
    core &owner;
    F handler;

    route(core &its_owner, F &&f) : owner(its_owner), handler(std::move(f)) {}

    static void run(uvhttp_request_t *native, uvhttp_response_t *res, void *user) noexcept {
        auto *self = static_cast<route *>(user);
        request req(native);
        try {
            self->call(native, res, req);
        } catch (...) {
            fail(res, self->owner.caught(std::current_exception(), req));
        }
    }

    void call(uvhttp_request_t *native, uvhttp_response_t *res, request &req) {
        if constexpr (std::is_invocable_r_v<task<response>, F &, request &>) {
            coroutine::start(native, res, owner, handler);
        } else if constexpr (std::is_invocable_r_v<response, F &, request &>) {
            handler(req).send(res);
        } else {
            static_assert(std::is_invocable_v<F &, request &, reply &>,
                          "a handler is response(request&), task<response>(request&) or void(request&, reply&)");
            reply by_calls(res);
            handler(req, by_calls);
        }
    }
};

} // namespace detail

} // namespace uvhttp

#include <uvhttp/websocket.hpp>

#include <uvhttp/routes.hpp>

namespace uvhttp {

/** The server. Set routes and handlers before listen and run. Handlers are called on the loops' threads, concurrently
 * if there are several loops. A handler is one of:
 *
 *     response(request&)             responds with its result
 *     void(request&, reply&)         responds through its argument, or later through reply.defer()
 *     task<response>(request&)       a coroutine; the server keeps the captures of the lambda */
class server : public detail::routes<server> {
  public:
    /** Throws when out of memory, or when a field is out of range, with a message that names it. */
    explicit server(const config &fields = {}) : server(std::in_place, fields.native()) {}
    /** Creates a server from a C configuration, for example of uvhttp_server_config_load. */
    static server with(const uvhttp_server_config_t &fields) {
        return server(std::in_place, fields);
    }

    /** Adds middleware for all requests, also for those that match no route. */
    server &use(uvhttp_middleware_t middleware) {
        return registered(uvhttp_use(native(), middleware) == UVHTTP_OK);
    }

    /** Runs run(args...) on a worker thread, where it may block. Awaiting it returns its result or throws its
     * exception:
     *
     *     auto reading = server.work([file] { return file->read(); });
     *     std::string text = co_await reading;
     *
     *     std::string text = co_await server.work([](auto file) { return file->read(); }, file);
     *
     * The arguments are copied or moved into the job, like those of std::thread, and passed as rvalues. If the
     * coroutine is destroyed meanwhile, the job still runs to its end: it must own what it uses. Keep a closure with
     * owning captures in a variable, as in the first example, or pass them as arguments. Before version 13, g++
     * destroys the captures of a closure twice if it is created in the same expression as co_await; such code is
     * refused (docs/guide/cpp.md). The result can be awaited once. co_await throws UVHTTP_E_WORK_FULL,
     * UVHTTP_E_WORK_CANCELLED (the server stops), UVHTTP_E_NOMEM, or UVHTTP_E_STATE (outside a loop's thread, or
     * awaited before). Await it on a loop of this server: a coroutine of another server would continue on the worker
     * thread. */
    template <class F, class... Args>
    requires std::invocable<F, std::decay_t<Args>...>
    auto work(F job, Args &&...args) {
        constexpr bool as_temporary =
            detail::callable_is_safe<F> && ((std::is_lvalue_reference_v<Args> || detail::item_is_safe<Args>)&&...);
        return working<as_temporary, F, std::decay_t<Args>...>(native(), std::move(job), std::forward<Args>(args)...);
    }

    /** Sets a function that is called for each exception that leaves a handler, on the loop's thread; it must not
     * block. */
    server &on_exception(std::function<void(std::exception_ptr, const request &)> hook) {
        core_->on_exception = std::move(hook);
        return *this;
    }
    /** Sets a function that is called once, when the server is ready, before the first connection is accepted. It runs
     * on the thread that calls run, and must not throw or block. Throws UVHTTP_E_STATE if the server has run. */
    server &on_ready(std::function<void()> hook) {
        core_->on_ready = std::move(hook);
        check(uvhttp_server_on_ready(native(), call_on_ready, core_.get()));
        return *this;
    }
    /** Returns the number of those exceptions. Any thread. */
    std::uint64_t exceptions() const noexcept {
        return core_->exceptions.load(std::memory_order_relaxed);
    }

    /** Listens and returns the port. Throws errors with the server's text. */
    std::uint16_t listen(const char *address) {
        std::uint16_t port = 0;
        int status = uvhttp_server_listen(native(), address, &port);
        if (status != UVHTTP_OK) throw error(status, error_text());
        return port;
    }
    /** The same with TLS; one server may have both. */
    std::uint16_t listen(const char *address, const tls &with) {
        std::uint16_t port = 0;
        int status = uvhttp_server_listen_tls(native(), address, with.native(), &port);
        if (status != UVHTTP_OK) throw error(status, error_text());
        return port;
    }
#if UVHTTP_WITH_WEBSOCKET
    /** Sends a text to all WebSocket connections that have subscribed to the topic. Any thread. */
    void publish(const char *topic, std::string_view text) {
        check(uvhttp_websocket_publish(native(), topic, UVHTTP_WS_TEXT, text.data(), text.size()));
    }
#endif
    /** Runs until SIGINT, SIGTERM or stop, and until it has drained. nullptr: only on addresses of listen. Returns 0,
     * or a code whose reason has been logged: main may return run(...) != 0. */
    int run(const char *address = nullptr) noexcept {
        return uvhttp_server_run(native(), address);
    }
    /** Starts to stop. Any thread. */
    void stop() noexcept {
        (void)uvhttp_server_stop(native());
    }
    const char *error_text() const noexcept {
        return uvhttp_server_error_text(native_.get());
    }
    uvhttp_server_t *native() const noexcept {
        return native_.get();
    }

  private:
    server(std::in_place_t, const uvhttp_server_config_t &fields) : core_(std::make_unique<detail::core>()) {
        native_.reset(uvhttp_server_new(&fields));
        core_->server = native_.get();
        root_ = uvhttp_group(native_.get(), "");
        if (native_) return;
        char message[256] = "";
        int status = uvhttp_server_config_check(&fields, message, sizeof message);
        throw error(status != UVHTTP_OK ? status : UVHTTP_E_NOMEM, *message ? message : "no server: see the log");
    }

    template <class> friend class detail::routes;

    static void call_on_ready(uvhttp_server_t *, void *user) noexcept {
        static_cast<detail::core *>(user)->on_ready();
    }

    detail::core &shared() const noexcept {
        return *core_;
    }
    uvhttp_group_t *native_group() const noexcept {
        return root_;
    }

    struct freed {
        void operator()(uvhttp_server_t *native) const noexcept {
            uvhttp_server_free(native);
        }
    };

    std::unique_ptr<detail::core> core_;
    std::unique_ptr<uvhttp_server_t, freed> native_{}; /* destroyed first */
    uvhttp_group_t *root_ = nullptr;                   /* the group of its routes, without a prefix */
};

} // namespace uvhttp

#include <uvhttp/await.hpp>
#include <uvhttp/tasks.hpp>

#endif
