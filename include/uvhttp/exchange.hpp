/* Owns: the types that C++ handlers use: errors, requests and responses. uvhttp.hpp includes it. May include: the
 * public headers. */
#ifndef UVHTTP_EXCHANGE_HPP
#define UVHTTP_EXCHANGE_HPP

#include <uvhttp.h>

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace uvhttp {

/** An error code of <uvhttp/error.h>, with its message or a more specific one. */
class error : public std::runtime_error {
  public:
    explicit error(int code) : error(code, uvhttp_error_message(code)) {}
    error(int code, const std::string &message) : std::runtime_error(message), code_(code) {}
    int code() const noexcept {
        return code_;
    }

  private:
    int code_;
};

/** Throws if `status` is an error. */
inline void check(int status) {
    if (status != UVHTTP_OK) throw error(status);
}

inline std::string_view view(uvhttp_str_t text) noexcept {
    return {text.data, text.size};
}

namespace detail {

/* For C, which would take the text to end at a NUL in it. */
inline const char *terminated(const std::string &text) {
    if (text.find('\0') != std::string::npos) throw error(UVHTTP_E_INVALID);
    return text.c_str();
}

} // namespace detail

/** A request: <uvhttp/request.h>. Views are valid until the handler returns; in a coroutine, until it ends. */
class request {
  public:
    explicit request(uvhttp_request_t *native) noexcept : native_(native) {}

    uvhttp_method_t method() const noexcept {
        return uvhttp_request_method(native_);
    }
    std::string_view method_text() const noexcept {
        return view(uvhttp_request_method_text(native_));
    }
    std::string_view target() const noexcept {
        return view(uvhttp_request_target(native_));
    }
    std::string_view path() const noexcept {
        return view(uvhttp_request_path(native_));
    }
    std::string_view query() const noexcept {
        return view(uvhttp_request_query(native_));
    }
    std::string_view host() const noexcept {
        return view(uvhttp_request_host(native_));
    }
    std::string_view client() const noexcept {
        return view(uvhttp_request_client(native_));
    }
    std::string_view body() const noexcept {
        return view(uvhttp_request_body(native_));
    }
    /** Returns what `:name` of the pattern matched. Empty if the pattern has no such name. */
    std::string_view param(const char *name) const noexcept {
        return view(uvhttp_request_param(native_, name));
    }
    std::optional<std::string_view> header(const char *name) const noexcept {
        uvhttp_str_t value = uvhttp_request_header(native_, name);
        return value.data ? std::optional(view(value)) : std::nullopt;
    }
    std::optional<std::string_view> query_param(const char *name) const noexcept {
        uvhttp_str_t value;
        return uvhttp_request_query_param(native_, name, &value) ? std::optional(view(value)) : std::nullopt;
    }
    std::optional<std::string_view> cookie(const char *name) const noexcept {
        uvhttp_str_t value;
        return uvhttp_request_cookie(native_, name, &value) ? std::optional(view(value)) : std::nullopt;
    }
    uvhttp_request_t *native() const noexcept {
        return native_;
    }

  private:
    uvhttp_request_t *native_;
};

/** A cookie to set: uvhttp_cookie_options_t with strings that it owns. */
struct cookie {
    std::string name{};
    std::string value{};
    std::string path = "/";
    std::string domain{}; /* "": the host of the request, without subdomains */
    std::int64_t max_age_s = 0;
    uvhttp_same_site_t same_site = UVHTTP_SAME_SITE_LAX;
    bool secure = false;
    bool http_only = false;

    /** Adds the Set-Cookie field; throws what uvhttp_response_cookie returns. */
    void set(uvhttp_response_t *res) const {
        uvhttp_cookie_options_t native{};
        native.name = detail::terminated(name);
        native.value = value.c_str();
        native.path = detail::terminated(path);
        if (!domain.empty()) native.domain = detail::terminated(domain);
        native.max_age_s = max_age_s;
        native.same_site = same_site;
        native.secure = secure;
        native.http_only = http_only;
        native.value_size = value.size();
        check(uvhttp_response_cookie(res, &native));
    }
};

namespace detail {

/* A reference to a reference-counted C object. A copy is another reference. */
template <class T, void (*retain)(T *), void (*release)(T *)> class shared_handle {
  public:
    shared_handle() noexcept = default;
    explicit shared_handle(T *native) noexcept : native_(native) {} /* takes ownership of the reference */
    shared_handle(const shared_handle &other) noexcept : native_(other.native_) {
        if (native_) retain(native_);
    }
    shared_handle(shared_handle &&other) noexcept : native_(std::exchange(other.native_, nullptr)) {}
    shared_handle &operator=(shared_handle other) noexcept {
        std::swap(native_, other.native_);
        return *this;
    }
    ~shared_handle() {
        release(native_);
    }

    T *native() const noexcept {
        return native_;
    }

  protected:
    T *native_ = nullptr;
};

} // namespace detail

/** A shared body: bytes that are created once and sent often (uvhttp_shared_body_t). A copy refers to the same bytes.
 * The constructor throws the errors of uvhttp_shared_body_new. */
class shared_body
    : public detail::shared_handle<uvhttp_shared_body_t, uvhttp_shared_body_retain, uvhttp_shared_body_release> {
  public:
    explicit shared_body(std::string_view data) {
        check(uvhttp_shared_body_new(data.data(), data.size(), &native_));
    }
};

namespace detail {

/* The Content-Type of a response, which is sent when the handler's variables no longer exist: a literal is referred to,
 * any other text is copied. */
class media_type {
  public:
    media_type(std::nullptr_t) noexcept {} /* none */
    template <std::size_t size> media_type(const char (&literal)[size]) noexcept : literal_(literal) {}
    template <std::size_t size> /* a writable array is not a literal */
    media_type(char (&text)[size]) : copy_(text), literal_("") {}
    template <class T>
    requires(std::convertible_to<T, std::string_view> && !std::is_array_v<T>) media_type(const T &text) {
        if constexpr (std::is_pointer_v<T>)
            if (!text) return;
        copy_ = std::string_view(text);
        literal_ = "";
    }

    const char *c_str() const noexcept {
        return copy_.empty() ? literal_ : copy_.c_str();
    }

  private:
    std::string copy_{};
    const char *literal_ = nullptr;
};

} // namespace detail

/** A response as a value that a handler returns. A body that is a literal or a uvhttp::shared_body is not copied. A
 * std::string is moved or copied. Anything else is copied into a std::string. The content type is a literal, or copied.
 * A `const char` array counts as a literal: make a std::string_view of one that is a variable. */
class response {
  public:
    response() = default; /* no response: the client receives 500 */
    response(int status, detail::media_type content_type) noexcept
        : status_(status), content_type_(std::move(content_type)) {}
    template <std::size_t size>
    response(int status, detail::media_type content_type, const char (&literal)[size]) noexcept
        : status_(status), content_type_(std::move(content_type)), body_(std::string_view(literal, size - 1)) {}
    response(int status, detail::media_type content_type, std::string &&body) noexcept
        : status_(status), content_type_(std::move(content_type)), body_(std::move(body)) {}
    response(int status, detail::media_type content_type, shared_body body) noexcept
        : status_(status), content_type_(std::move(content_type)), body_(std::move(body)) {}
    template <class T>
    requires std::convertible_to<T, std::string_view> response(int status, detail::media_type content_type,
                                                               const T &body)
        : status_(status), content_type_(std::move(content_type)), body_(std::string(std::string_view(body))) {}
    template <std::size_t size> /* a writable array is not a literal */
    response(int status, detail::media_type content_type, char (&body)[size])
        : response(status, std::move(content_type), std::string(body)) {}

    response &&header(std::string name, std::string value) && {
        headers_.emplace_back(std::move(name), std::move(value));
        return std::move(*this);
    }
    response &&cookie(uvhttp::cookie made) && {
        cookies_.push_back(std::move(made));
        return std::move(*this);
    }
    int status() const noexcept {
        return status_;
    }

    /** Sends it as the response of a request. Throws the errors of the C functions. */
    void send(uvhttp_response_t *to) const {
        if (status_ == 0) return;
        for (const auto &[name, value] : headers_)
            check(uvhttp_response_header_add(to, detail::terminated(name), detail::terminated(value)));
        for (const auto &made : cookies_) made.set(to);
        if (const auto *literal = std::get_if<std::string_view>(&body_)) {
            check(uvhttp_response_send_static(to, status_, content_type_.c_str(), literal->data(), literal->size()));
        } else if (const auto *text = std::get_if<std::string>(&body_)) {
            check(uvhttp_response_send(to, status_, content_type_.c_str(), text->data(), text->size()));
        } else if (const auto *made = std::get_if<shared_body>(&body_)) {
            check(uvhttp_response_send_shared_body(to, status_, content_type_.c_str(), made->native()));
        } else {
            check(uvhttp_response_empty(to, status_));
        }
    }

  private:
    int status_ = 0;
    detail::media_type content_type_ = nullptr;
    std::variant<std::monostate, std::string_view, std::string, shared_body> body_{};
    std::vector<std::pair<std::string, std::string>> headers_{};
    std::vector<uvhttp::cookie> cookies_{};
};

/** Make a response with the usual content types; any other is an argument of the constructor. */
template <class T> response text(int status, T &&body) {
    return response(status, "text/plain; charset=utf-8", std::forward<T>(body));
}
template <class T> response json(int status, T &&body) {
    return response(status, "application/json", std::forward<T>(body));
}
inline response empty(int status) noexcept {
    return {status, nullptr};
}

/** A reference-counted handle to respond later, from any thread: <uvhttp/response.h>. If the last reference is
 * destroyed without a response, the client receives 500. The functions return 0 or an error code: UVHTTP_E_ABORTED
 * after the client has disconnected. */
class deferred : public detail::shared_handle<uvhttp_deferred_t, uvhttp_deferred_retain, uvhttp_deferred_release> {
  public:
    using shared_handle::shared_handle;

    explicit operator bool() const noexcept {
        return native_ != nullptr;
    }
    int text(int status, const char *text) const noexcept {
        return uvhttp_deferred_text(native_, status, text);
    }
    int json(int status, const char *json) const noexcept {
        return uvhttp_deferred_json(native_, status, json);
    }
    int send(int status, const char *content_type, std::string_view body) const noexcept {
        return uvhttp_deferred_send(native_, status, content_type, body.data(), body.size());
    }
    int header(const char *name, const char *value) const noexcept {
        return uvhttp_deferred_header(native_, name, value);
    }
    int interim(int status, std::initializer_list<uvhttp_response_field_t> fields = {}) const noexcept {
        return uvhttp_deferred_interim(native_, status, fields.begin(), fields.size());
    }
    bool aborted() const noexcept {
        return uvhttp_deferred_aborted(native_);
    }
    /** Sets a function that ends a long response when the server stops: uvhttp_deferred_on_stop. */
    int on_stop(void (*hook)(uvhttp_response_t *res, void *user), void *user = nullptr) const noexcept {
        return uvhttp_deferred_on_stop(native_, hook, user);
    }
    uvhttp::request request() const noexcept {
        return uvhttp::request(uvhttp_deferred_request(native_));
    }
};

/** The response of a handler that receives it as its second argument. Bodies are copied into the memory of the request.
 */
class reply {
  public:
    explicit reply(uvhttp_response_t *native) noexcept : native_(native) {}

    void text(int status, const char *text) {
        check(uvhttp_response_text(native_, status, text));
    }
    void json(int status, const char *json) {
        check(uvhttp_response_json(native_, status, json));
    }
    void send(int status, const char *content_type, std::string_view body) {
        check(uvhttp_response_send(native_, status, content_type, body.data(), body.size()));
    }
    void empty(int status) {
        check(uvhttp_response_empty(native_, status));
    }
    void redirect(int status, const char *location) {
        check(uvhttp_response_redirect(native_, status, location));
    }
    reply &header(const char *name, const char *value) {
        check(uvhttp_response_header(native_, name, value));
        return *this;
    }
    /** Adds a Set-Cookie field. */
    reply &cookie(const uvhttp::cookie &made) {
        made.set(native_);
        return *this;
    }
    /** Sends an interim response before the final one: `reply.interim(103, {{"Link", "</a.css>; rel=preload"}})`. */
    void interim(int status, std::initializer_list<uvhttp_response_field_t> fields = {}) {
        check(uvhttp_response_interim(native_, status, fields.begin(), fields.size()));
    }
    /** Returns whether the server has started to stop. */
    [[nodiscard]] bool stopping() const noexcept {
        return uvhttp_response_stopping(native_);
    }
    /** Defers the response. Throws when out of memory; the client then receives 503. */
    [[nodiscard]] deferred defer() {
        uvhttp_deferred_t *later = uvhttp_response_defer(native_);
        if (!later) throw error(UVHTTP_E_NOMEM);
        return deferred(later);
    }
    uvhttp_response_t *native() const noexcept {
        return native_;
    }

  private:
    uvhttp_response_t *native_;
};

} // namespace uvhttp

#endif
