/* Owns: registration of routes on C++ servers and groups. uvhttp.hpp includes it. May include: the public headers. */
#ifndef UVHTTP_HPP
#include <uvhttp.hpp> /* which includes this file in its place */
#elif !defined(UVHTTP_ROUTES_HPP)
#define UVHTTP_ROUTES_HPP

namespace uvhttp {

class route_group;

namespace detail {

/* Derived has shared() and native_group(). A refused registration throws the code of uvhttp_server_error. */
template <class Derived> class routes {
  public:
    template <class F> Derived &get(const char *pattern, F handler, const uvhttp_route_options_t &options = {}) {
        return add(UVHTTP_GET, pattern, std::move(handler), options);
    }
    template <class F> Derived &head(const char *pattern, F handler, const uvhttp_route_options_t &options = {}) {
        return add(UVHTTP_HEAD, pattern, std::move(handler), options);
    }
    template <class F> Derived &post(const char *pattern, F handler, const uvhttp_route_options_t &options = {}) {
        return add(UVHTTP_POST, pattern, std::move(handler), options);
    }
    template <class F> Derived &put(const char *pattern, F handler, const uvhttp_route_options_t &options = {}) {
        return add(UVHTTP_PUT, pattern, std::move(handler), options);
    }
    template <class F> Derived &del(const char *pattern, F handler, const uvhttp_route_options_t &options = {}) {
        return add(UVHTTP_DELETE, pattern, std::move(handler), options);
    }
    template <class F> Derived &patch(const char *pattern, F handler, const uvhttp_route_options_t &options = {}) {
        return add(UVHTTP_PATCH, pattern, std::move(handler), options);
    }
    template <class F> Derived &options(const char *pattern, F handler, const uvhttp_route_options_t &options = {}) {
        return add(UVHTTP_OPTIONS, pattern, std::move(handler), options);
    }
    template <class F> Derived &any(const char *pattern, F handler, const uvhttp_route_options_t &options = {}) {
        return add(UVHTTP_ANY, pattern, std::move(handler), options);
    }

    /** Creates a group of routes with a common prefix, middleware and defaults. */
    uvhttp::route_group group(const char *prefix);

#if UVHTTP_WITH_STATIC
    /** Serves the files below the directory `root`, for GET and HEAD of `prefix` and paths below it: uvhttp_static. */
    Derived &files(const char *prefix, const char *root, const uvhttp_static_options_t &options = {}) {
        return registered(uvhttp_group_static(self().native_group(), prefix, root, &options) == UVHTTP_OK);
    }
#endif
#if UVHTTP_WITH_WEBSOCKET
    /** Serves WebSocket: server.websocket("/echo", {.message = [](auto ws, auto message) { ws.send(message.data);
     * }}). */
    Derived &websocket(const char *pattern, websocket_handlers handlers) {
        auto owned = std::make_unique<websocket_route>(self().shared(), std::move(handlers));
        websocket_route *route = owned.get();
        self().shared().routes.push_back(std::move(owned));
        const uvhttp_ws_handlers_t native = route->native();
        return registered(uvhttp_group_websocket(self().native_group(), pattern, &native, route));
    }
#endif

  protected:
    Derived &registered(bool done) {
        const uvhttp_server_t *server = self().shared().server;
        if (!done) throw error(uvhttp_server_error(server), uvhttp_server_error_text(server));
        return self();
    }

  private:
    Derived &self() noexcept {
        return static_cast<Derived &>(*this);
    }

    template <class F>
    Derived &add(uvhttp_method_t method, const char *pattern, F &&handler, uvhttp_route_options_t options) {
        using made = detail::route<F>;
        if constexpr (std::is_invocable_r_v<task<response>, F &, request &>) {
            if (options.exec > UVHTTP_EXEC_LOOP) throw error(UVHTTP_E_INVALID, "a task runs on the loop");
            options.exec = UVHTTP_EXEC_LOOP; /* also if the group has another mode */
        }
        auto owned = std::make_unique<made>(self().shared(), std::move(handler));
        void *user = owned.get();
        self().shared().routes.push_back(std::move(owned));
        uvhttp_route_t *route =
            uvhttp_group_route(self().native_group(), method, pattern, made::run, user, UVHTTP_EXEC_DEFAULT);
        return registered(uvhttp_route_options(route, &options) == UVHTTP_OK);
    }
};

} // namespace detail

/** A group of routes: uvhttp::route_group api = server.group("/api"). The server owns it; a copy is the same group. */
class route_group : public detail::routes<route_group> {
  public:
    route_group &use(uvhttp_middleware_t middleware) {
        return registered(uvhttp_group_use(native_, middleware) == UVHTTP_OK);
    }
    /** Sets the options that its routes inherit: uvhttp_group_defaults. Handlers that are tasks always run on the loop.
     */
    route_group &defaults(const uvhttp_route_options_t &options) {
        return registered(uvhttp_group_defaults(native_, &options) == UVHTTP_OK);
    }
    uvhttp_group_t *native() const noexcept {
        return native_;
    }

  private:
    template <class> friend class detail::routes;

    route_group(detail::core &owner, uvhttp_group_t *native) noexcept : owner_(&owner), native_(native) {}
    detail::core &shared() const noexcept {
        return *owner_;
    }
    uvhttp_group_t *native_group() const noexcept {
        return native_;
    }

    detail::core *owner_;
    uvhttp_group_t *native_;
};

template <class Derived> uvhttp::route_group detail::routes<Derived>::group(const char *prefix) {
    return uvhttp::route_group(self().shared(), uvhttp_group_group(self().native_group(), prefix));
}

} // namespace uvhttp

#endif
