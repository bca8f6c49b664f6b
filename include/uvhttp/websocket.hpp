/* Owns: WebSocket routes for C++: <uvhttp/websocket.h>. uvhttp.hpp includes it. May include: the public headers. */
#ifndef UVHTTP_HPP
#include <uvhttp.hpp> /* which includes this file in its place */
#elif !defined(UVHTTP_WEBSOCKET_HPP) && UVHTTP_WITH_WEBSOCKET
#define UVHTTP_WEBSOCKET_HPP

namespace uvhttp {

/** A reference to a connection, for other threads. A copy is another reference. The functions return 0 or a code:
 * UVHTTP_E_ABORTED if the connection has ended. */
class websocket_ref : public detail::shared_handle<uvhttp_ws_ref_t, uvhttp_ws_ref_retain, uvhttp_ws_ref_release> {
  public:
    using shared_handle::shared_handle;

    explicit operator bool() const noexcept {
        return native_ != nullptr;
    }
    int send(std::string_view text) const noexcept {
        return uvhttp_ws_ref_send(native_, UVHTTP_WS_TEXT, text.data(), text.size());
    }
    int send_binary(std::string_view data) const noexcept {
        return uvhttp_ws_ref_send(native_, UVHTTP_WS_BINARY, data.data(), data.size());
    }
    int close(int code = UVHTTP_WS_NORMAL, const char *reason = nullptr) const noexcept {
        return uvhttp_ws_ref_close(native_, code, reason);
    }
};

/** A WebSocket connection. It is a view, valid until the handler `close` has returned, on its loop's thread. */
class websocket {
  public:
    explicit websocket(uvhttp_ws_t *native) noexcept : native_(native) {}

    /** Queues a message, which is copied. Returns false if the queue is long: the message will be sent, but wait for
     * the handler `drain` before the next one. Throws other results of uvhttp_ws_send. */
    bool send(std::string_view text) const {
        return sent(uvhttp_ws_send(native_, UVHTTP_WS_TEXT, text.data(), text.size()));
    }
    bool send_binary(std::string_view data) const {
        return sent(uvhttp_ws_send(native_, UVHTTP_WS_BINARY, data.data(), data.size()));
    }
    void close(int code = UVHTTP_WS_NORMAL, const char *reason = nullptr) const {
        check(uvhttp_ws_close(native_, code, reason));
    }
    std::size_t queued() const noexcept {
        return uvhttp_ws_queued(native_);
    }
    void pause() const noexcept {
        uvhttp_ws_pause(native_);
    }
    void resume() const noexcept {
        uvhttp_ws_resume(native_);
    }
    void subscribe(const char *topic) const {
        check(uvhttp_ws_subscribe(native_, topic));
    }
    /** Returns false if it had not subscribed. */
    bool unsubscribe(const char *topic) const noexcept {
        return uvhttp_ws_unsubscribe(native_, topic) == UVHTTP_OK;
    }
    void publish(const char *topic, std::string_view text) const {
        check(uvhttp_ws_publish(native_, topic, UVHTTP_WS_TEXT, text.data(), text.size()));
    }
    /** Returns a reference for other threads. Throws when out of memory, or closed. */
    websocket_ref ref() const {
        uvhttp_ws_ref_t *made = uvhttp_ws_ref(native_);
        if (!made) throw error(UVHTTP_E_NOMEM);
        return websocket_ref(made);
    }
    /** Sets a pointer of the application. It starts as that of the request (uvhttp_request_set_data). */
    void set_data(void *data) const noexcept {
        uvhttp_ws_set_data(native_, data);
    }
    void *data() const noexcept {
        return uvhttp_ws_data(native_);
    }
    uvhttp_ws_t *native() const noexcept {
        return native_;
    }

  private:
    static bool sent(int status) {
        if (status == UVHTTP_E_AGAIN) return false;
        check(status);
        return true;
    }

    uvhttp_ws_t *native_;
};

/** A complete message, valid until the handler returns. Text is UTF-8. */
struct websocket_message {
    std::string_view data;
    bool is_text;
};

/** Handlers of the connections of a route, called on the loop's thread of the connection. Only `message` is required.
 * An exception of a handler is counted (server::exceptions) and closes the connection with 1011. `upgrade` handles a
 * request, and its exceptions become 500 or 503 as those of other handlers do. */
struct websocket_handlers {
    std::function<void(websocket, websocket_message)> message{};
    std::function<void(websocket)> open{};
    std::function<void(websocket, int code, std::string_view reason)> close{};
    std::function<void(websocket)> drain{};
    std::function<void(websocket)> stop{};                   /* the server starts to stop */
    std::function<bool(const request &, reply &)> upgrade{}; /* false: it has refused with its own response */
    uvhttp_ws_options_t options{};
};

namespace detail {

struct websocket_route final : route_base {
    core &owner;
    websocket_handlers handlers;

    websocket_route(core &its_owner, websocket_handlers &&its) : owner(its_owner), handlers(std::move(its)) {}

    static websocket_route &of(void *user) noexcept {
        return *static_cast<websocket_route *>(user);
    }
    template <class F, class... Args> void call(uvhttp_ws_t *ws, const F &handler, Args &&...args) noexcept {
        if (!handler) return;
        try {
            handler(websocket(ws), std::forward<Args>(args)...);
        } catch (...) {
            owner.exceptions.fetch_add(1, std::memory_order_relaxed);
            (void)uvhttp_ws_close(ws, UVHTTP_WS_INTERNAL_ERROR, nullptr);
        }
    }

    static uvhttp_flow_t on_upgrade(uvhttp_request_t *native, uvhttp_response_t *res, void *user) noexcept {
        websocket_route &self = of(user);
        request req(native);
        try {
            reply refusal(res);
            return !self.handlers.upgrade || self.handlers.upgrade(req, refusal) ? UVHTTP_NEXT : UVHTTP_STOP;
        } catch (...) {
            fail(res, self.owner.caught(std::current_exception(), req));
            return UVHTTP_STOP;
        }
    }
    static void on_open(uvhttp_ws_t *ws, void *user) noexcept {
        of(user).call(ws, of(user).handlers.open);
    }
    static void on_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) noexcept {
        of(user).call(ws, of(user).handlers.message,
                      websocket_message{{message.data, message.size}, message.type == UVHTTP_WS_TEXT});
    }
    static void on_drain(uvhttp_ws_t *ws, void *user) noexcept {
        of(user).call(ws, of(user).handlers.drain);
    }
    static void on_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) noexcept {
        of(user).call(ws, of(user).handlers.close, code, view(reason));
    }
    static void on_stop(uvhttp_ws_t *ws, void *user) noexcept {
        of(user).call(ws, of(user).handlers.stop);
    }

    /* The handlers for registration, which the library copies. */
    uvhttp_ws_handlers_t native() const noexcept {
        uvhttp_ws_handlers_t made{};
        made.on_upgrade = on_upgrade;
        made.on_open = on_open;
        if (handlers.message) made.on_message = on_message;
        made.on_drain = on_drain;
        made.on_close = on_close;
        made.on_stop = on_stop;
        made.options = &handlers.options;
        return made;
    }
};

} // namespace detail

} // namespace uvhttp

#endif
