/* Owns: further awaitables of C++ coroutines: descriptors, connections to other servers, HTTP requests, channels.
 * uvhttp.hpp includes it. May include: the public headers.
 *
 * Each wait runs on the loop's thread, and ends early if the coroutine is destroyed. An expired timeout throws
 * UVHTTP_E_TIMEOUT; 0 does not wait. Nothing is allocated that C would not allocate. */
#ifndef UVHTTP_AWAIT_HPP
#define UVHTTP_AWAIT_HPP

#include <uvhttp.hpp>

#include <algorithm>
#include <cassert>
#include <poll.h>
#include <span>
#include <unistd.h>

namespace uvhttp {

/** No timeout, as UVHTTP_NEVER. */
inline constexpr std::chrono::milliseconds never = std::chrono::milliseconds::max();

namespace detail {

/* A wait with a timeout. Derived starts its own wait in arm_own(), ends it with over(), and stops it in disarm_own().
 */
template <class Derived, bool as_temporary = true> class waiting : public awaitable<Derived, as_temporary> {
  protected:
    template <class, bool> friend class awaitable;

    explicit waiting(std::chrono::milliseconds timeout) noexcept : timeout_(timeout) {}

    void arm(std::coroutine_handle<> waiter) {
        if (timeout_ <= std::chrono::milliseconds::zero()) throw error(UVHTTP_E_TIMEOUT);
        waiter_ = waiter;
        check(self().arm_own());
        if (timeout_ == never) return;
        int status = uvhttp_timer_start(&timer_, static_cast<std::uint64_t>(timeout_.count()), expired, this);
        if (status == UVHTTP_OK) return;
        self().disarm_own();
        throw error(status);
    }
    void disarm() noexcept {
        uvhttp_timer_stop(&timer_);
        self().disarm_own();
    }
    void over(int status) {
        status_ = status;
        waiter_.resume(); /* disarms it; *this may be destroyed */
    }

    int status_ = UVHTTP_OK;

  private:
    Derived &self() noexcept {
        return static_cast<Derived &>(*this);
    }
    static void expired(uvhttp_timer_t *, void *self) {
        static_cast<waiting *>(self)->over(UVHTTP_E_TIMEOUT);
    }

    std::chrono::milliseconds timeout_;
    std::coroutine_handle<> waiter_{};
    uvhttp_timer_t timer_{};
};

/* A wait for a descriptor, repeated until `attempt` returns a code other than UVHTTP_E_AGAIN. */
template <class Derived> class descriptor_waiting : public waiting<Derived> {
  protected:
    template <class, bool> friend class awaitable;
    template <class, bool> friend class waiting;

    descriptor_waiting(int fd, unsigned events, std::chrono::milliseconds timeout) noexcept
        : waiting<Derived>(timeout), fd_(fd), events_(events) {}

    bool ready() {
        this->status_ = attempt();
        return this->status_ != UVHTTP_E_AGAIN;
    }
    int arm_own() noexcept {
        return uvhttp_fd_watcher_start(&watcher_, fd_, events_, on_ready, this);
    }
    void disarm_own() noexcept {
        uvhttp_fd_watcher_stop(&watcher_);
    }

    int fd_;
    unsigned events_;

  private:
    int attempt() noexcept {
        return static_cast<Derived *>(this)->attempt();
    }
    static void on_ready(uvhttp_fd_watcher_t *, void *user) {
        auto *it = static_cast<descriptor_waiting *>(user);
        int status = it->attempt();
        if (status == UVHTTP_E_AGAIN && (status = it->arm_own()) == UVHTTP_OK) return;
        it->over(status);
    }

    uvhttp_fd_watcher_t watcher_{};
};

class [[nodiscard]] becoming_ready : public descriptor_waiting<becoming_ready> {
  public:
    becoming_ready(int fd, unsigned events, std::chrono::milliseconds timeout) noexcept
        : descriptor_waiting(fd, events, timeout) {}

  private:
    template <class, bool> friend class awaitable;
    template <class> friend class descriptor_waiting;

    int attempt() const noexcept {
        pollfd now{
            fd_,
            static_cast<short>((events_ & UVHTTP_READABLE ? POLLIN : 0) | (events_ & UVHTTP_WRITABLE ? POLLOUT : 0)),
            0};
        if (fd_ < 0) return UVHTTP_E_INVALID;
        if (::poll(&now, 1, 0) <= 0) return UVHTTP_E_AGAIN; /* or a signal arrived just now */
        return now.revents & POLLNVAL ? UVHTTP_E_INVALID : UVHTTP_OK;
    }
    void result() const {
        check(status_);
    }
};

class [[nodiscard]] reading : public descriptor_waiting<reading> {
  public:
    reading(int fd, std::span<char> memory, std::chrono::milliseconds timeout) noexcept
        : descriptor_waiting(fd, UVHTTP_READABLE, timeout), memory_(memory) {}

  private:
    template <class, bool> friend class awaitable;
    template <class> friend class descriptor_waiting;

    int attempt() noexcept {
        return uvhttp_socket_read(fd_, memory_.data(), memory_.size(), &size_);
    }
    std::size_t result() const {
        if (status_ != UVHTTP_E_EOF) check(status_);
        return size_;
    }

    std::span<char> memory_;
    std::size_t size_ = 0;
};

class [[nodiscard]] writing : public descriptor_waiting<writing> {
  public:
    writing(int fd, std::string_view data, std::chrono::milliseconds timeout) noexcept
        : descriptor_waiting(fd, UVHTTP_WRITABLE, timeout), data_(data) {}

  private:
    template <class, bool> friend class awaitable;
    template <class> friend class descriptor_waiting;

    int attempt() noexcept {
        while (!data_.empty()) {
            std::size_t sent = 0;
            int status = uvhttp_socket_write(fd_, data_.data(), data_.size(), &sent);
            if (status != UVHTTP_OK) return status;
            data_.remove_prefix(sent);
        }
        return UVHTTP_OK;
    }
    void result() const {
        check(status_);
    }

    std::string_view data_;
};

} // namespace detail

/** Waits until a descriptor can be read without blocking: co_await uvhttp::readable(fd, 500ms). An error or the end of
 * a connection counts as ready. Only one coroutine of a loop can wait for a descriptor. Throws the errors of
 * uvhttp_fd_watcher_start. */
inline detail::becoming_ready readable(int fd, std::chrono::milliseconds timeout = never) noexcept {
    return {fd, UVHTTP_READABLE, timeout};
}
inline detail::becoming_ready writable(int fd, std::chrono::milliseconds timeout = never) noexcept {
    return {fd, UVHTTP_WRITABLE, timeout};
}

/** A connected socket, closed with the object. It may be moved, but not during a wait. */
class socket {
  public:
    explicit socket(int fd) noexcept : fd_(fd) {} /* takes ownership */
    socket(socket &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    socket &operator=(socket &&other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~socket() {
        if (fd_ >= 0) ::close(fd_);
    }

    /** Receives available bytes, at least 1: co_await socket.read(memory, 1s). Returns their number, or 0 when the peer
     * has sent everything. */
    detail::reading read(std::span<char> memory, std::chrono::milliseconds timeout = never) noexcept {
        return {fd_, memory, timeout};
    }
    /** Sends all bytes: co_await socket.write(data, 1s). */
    detail::writing write(std::string_view data, std::chrono::milliseconds timeout = never) noexcept {
        return {fd_, data, timeout};
    }
    int fd() const noexcept {
        return fd_;
    }

  private:
    int fd_;
};

namespace detail {

inline std::uint32_t to_ms(std::chrono::milliseconds time) noexcept {
    if (time == never) return UVHTTP_NEVER;
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(time.count(), 0, UVHTTP_NEVER - 1));
}

class [[nodiscard]] connecting : public awaitable<connecting> {
  public:
    connecting(const char *address, std::chrono::milliseconds timeout) noexcept
        : address_(address), timeout_(timeout) {}

  private:
    template <class, bool> friend class awaitable;

    bool ready() const noexcept {
        return false;
    }
    void arm(std::coroutine_handle<> waiter) {
        waiter_ = waiter;
        check(uvhttp_connect_start(&connector_, address_, to_ms(timeout_), done, this));
    }
    void disarm() noexcept {
        uvhttp_connect_stop(&connector_);
    }
    socket result() {
        check(status_);
        return std::move(made_);
    }
    static void done(uvhttp_connector_t *, int status, int fd, void *user) {
        auto *it = static_cast<connecting *>(user);
        it->status_ = status;
        it->made_ = socket(fd);
        it->waiter_.resume();
    }

    const char *address_;
    std::chrono::milliseconds timeout_;
    std::coroutine_handle<> waiter_{};
    socket made_{-1};
    int status_ = UVHTTP_OK;
    uvhttp_connector_t connector_{};
};

} // namespace detail

/** Connects: co_await uvhttp::connect("127.0.0.1:80", 1s). Addresses and errors are those of uvhttp_coro_connect. */
inline detail::connecting connect(const char *address, std::chrono::milliseconds timeout = never) noexcept {
    return {address, timeout};
}

/* --- HTTP requests to other servers --- */

/** A request to another server: <uvhttp/client.h>. The views must be valid until the response has arrived, as those of
 * literals and of variables of the coroutine are. */
struct client_request {
    const char *url = nullptr;
    const char *method = nullptr; /* "GET" */
    std::span<const uvhttp_client_header_t> headers{};
    std::string_view body{};
    std::chrono::milliseconds timeout{30000}; /* for the whole request */
    std::uint32_t response_size_max = 0;      /* the default of C */
    std::uint32_t head_size_max = 0;          /* the default of C */
    const char *unix_socket = nullptr;        /* socket to connect to instead of the url's host and port */
    std::uint32_t interim_max = 0;            /* the default of C */
};

/* It may be made from braces in the expression that awaits it, and must be trivially copyable
 * (detail::copies_temporaries). */
static_assert(std::is_trivially_copyable_v<client_request>);

/** The response of another server, with any status. Views are valid as long as the object. */
class client_response {
  public:
    explicit client_response(uvhttp_client_response_t *native) noexcept : native_(native) {} /* takes ownership */
    client_response(client_response &&other) noexcept : native_(std::exchange(other.native_, nullptr)) {}
    client_response &operator=(client_response &&other) noexcept {
        std::swap(native_, other.native_);
        return *this;
    }
    ~client_response() {
        uvhttp_client_response_free(native_);
    }

    int status() const noexcept {
        return uvhttp_client_response_status(native_);
    }
    std::string_view body() const noexcept {
        return view(uvhttp_client_response_body(native_));
    }
    std::optional<std::string_view> header(const char *name) const noexcept {
        uvhttp_str_t value = uvhttp_client_response_header(native_, name);
        return value.data ? std::optional(view(value)) : std::nullopt;
    }
    uvhttp_client_response_t *native() const noexcept {
        return native_;
    }

  private:
    uvhttp_client_response_t *native_;
};

namespace detail {

class [[nodiscard]] fetching : public awaitable<fetching> {
  public:
    explicit fetching(const client_request &asked) noexcept : asked_(asked) {}

  private:
    template <class, bool> friend class awaitable;

    bool ready() const noexcept {
        return false;
    }
    void arm(std::coroutine_handle<> waiter) {
        waiter_ = waiter;
        if (asked_.timeout <= std::chrono::milliseconds::zero()) throw error(UVHTTP_E_TIMEOUT);
        uvhttp_client_request_t native{};
        native.url = asked_.url;
        native.method = asked_.method;
        native.headers = asked_.headers.data();
        native.header_count = asked_.headers.size();
        native.body = asked_.body.data();
        native.body_size = asked_.body.size();
        native.timeout_ms = to_ms(asked_.timeout);
        native.response_size_max = asked_.response_size_max;
        native.head_size_max = asked_.head_size_max;
        native.unix_socket = asked_.unix_socket;
        native.interim_max = asked_.interim_max;
        uvhttp_client_response_t *made = nullptr;
        check(uvhttp_client_send(&native, done, this, &made));
        response_ = client_response(made);
        ended_ = false;
    }
    void disarm() noexcept {
        if (!ended_) response_ = client_response(nullptr); /* cancels the request */
    }
    client_response result() {
        check(status_);
        return std::move(response_);
    }

    static void done(uvhttp_client_response_t *, int status, void *user) {
        auto *it = static_cast<fetching *>(user);
        it->status_ = status;
        it->ended_ = true;
        it->waiter_.resume();
    }

    client_request asked_;
    std::coroutine_handle<> waiter_{};
    client_response response_{nullptr};
    int status_ = UVHTTP_OK;
    bool ended_ = false;
};

} // namespace detail

/** Sends a request and waits for the response: co_await uvhttp::fetch({.url = "http://127.0.0.1:81/", .timeout = 1s}).
 * Throws the errors of uvhttp_coro_request. */
inline detail::fetching fetch(const client_request &request) noexcept {
    return detail::fetching(request);
}

/* --- channels --- */

/** A bounded queue between coroutines of one loop, of one request or of several. Create it on that loop's thread;
 * otherwise it throws UVHTTP_E_STATE. The constructor allocates all memory. The channel must outlive the coroutines
 * that wait in it. */
template <class T>
requires std::is_nothrow_move_constructible_v<T>
class channel {
    template <bool sends> class waiter;

    template <bool sends> struct waiters {
        waiter<sends> *first = nullptr, *last = nullptr;

        void push_back(waiter<sends> &it) noexcept {
            it.before = last;
            it.after = nullptr;
            (last ? last->after : first) = &it;
            last = &it;
            it.linked = true;
        }
        void remove(waiter<sends> &it) noexcept {
            if (!it.linked) return;
            (it.before ? it.before->after : first) = it.after;
            (it.after ? it.after->before : last) = it.before;
            it.linked = false;
        }
        /* Wakes the coroutine that has waited longest. A second call wakes the next one. */
        void wake_one() noexcept {
            waiter<sends> *it = first;
            while (it && it->woken) it = it->after;
            if (it) it->wake();
        }
        void wake_all() noexcept {
            for (waiter<sends> *it = first; it; it = it->after) it->wake();
        }
    };

    /* A coroutine is resumed in its own loop iteration, not inside the call that wakes it. It first checks whether the
     * wait can be completed. An item that could not be sent stays in the waiter, which may be awaited again. */
    template <bool sends>
    class [[nodiscard]] waiter : public detail::waiting<waiter<sends>, !sends || detail::item_is_safe<T>> {
      public:
        waiter(channel &of, std::chrono::milliseconds timeout) noexcept
            : detail::waiting < waiter<sends>,
        !sends || detail::item_is_safe < T >> (timeout), owner(of) {}
        waiter(channel &into, T &&sent, std::chrono::milliseconds timeout) noexcept : waiter(into, timeout) {
            item.emplace(std::move(sent));
        }

      private:
        template <class, bool> friend class detail::awaitable;
        template <class, bool> friend class detail::waiting;
        friend struct waiters<sends>;

        waiters<sends> &list() const noexcept {
            if constexpr (sends)
                return owner.senders_;
            else
                return owner.receivers_;
        }
        bool ready() {
            if (uvhttp_loop_uv() != owner.loop_) throw error(UVHTTP_E_STATE);
            if (sends && !item) throw error(UVHTTP_E_STATE); /* it was sent before */
            this->status_ = UVHTTP_OK;
            return settle();
        }
        int arm_own() noexcept {
            list().push_back(*this);
            return UVHTTP_OK;
        }
        void disarm_own() noexcept {
            uvhttp_timer_stop(&timer);
            list().remove(*this);
            if (std::exchange(woken, false)) list().wake_one(); /* pass the wake-up on */
        }
        auto result() {
            if (sends || this->status_ != UVHTTP_E_EOF) check(this->status_);
            if constexpr (!sends) return std::exchange(item, std::nullopt);
        }

        /* Returns whether the wait is over; status_ is its result. */
        bool settle() noexcept {
            if (sends && owner.closed_)
                this->status_ = UVHTTP_E_CLOSED;
            else if (sends ? owner.put(item) : owner.take(item))
                return true;
            else if (owner.closed_)
                this->status_ = UVHTTP_E_EOF;
            return this->status_ != UVHTTP_OK;
        }
        void wake() noexcept {
            woken = true;
            (void)uvhttp_timer_start(&timer, 0, look, this); /* it cannot fail on this thread */
        }
        static void look(uvhttp_timer_t *, void *self) {
            auto *it = static_cast<waiter *>(self);
            it->woken = false;
            if (it->settle()) it->over(it->status_);
        }

        channel &owner;
        std::optional<T> item{}; /* to be sent, or received */
        waiter *before = nullptr, *after = nullptr;
        uvhttp_timer_t timer{};
        bool linked = false, woken = false;
    };

    using sending = waiter<true>;
    using receiving = waiter<false>;

  public:
    /** capacity: items, 1 or more */
    explicit channel(std::size_t capacity)
        : loop_(uvhttp_loop_uv()), capacity_(capacity), items_(std::make_unique<std::optional<T>[]>(capacity)) {
        if (!loop_) throw error(UVHTTP_E_STATE);
        if (capacity == 0) throw error(UVHTTP_E_INVALID);
    }
    channel(const channel &) = delete;
    channel &operator=(const channel &) = delete;
    ~channel() {
        assert(!senders_.first && !receivers_.first);
    }

    /** Sends an item, and waits while the channel is full: co_await channel.send(item, 1s). Throws UVHTTP_E_CLOSED. */
    sending send(T item, std::chrono::milliseconds timeout = never) noexcept {
        return {*this, std::move(item), timeout};
    }
    /** Returns the oldest item: co_await channel.receive(1s). Returns std::nullopt when the channel is closed and
     * empty. */
    receiving receive(std::chrono::milliseconds timeout = never) noexcept {
        return {*this, timeout};
    }
    /** Closes the channel for sending. Queued items can still be received. */
    void close() noexcept {
        closed_ = true;
        senders_.wake_all();
        receivers_.wake_all();
    }

  private:
    bool put(std::optional<T> &from) noexcept {
        if (count_ == capacity_) return false;
        items_[(first_ + count_++) % capacity_].emplace(std::move(*from));
        from.reset();
        receivers_.wake_one();
        return true;
    }
    bool take(std::optional<T> &to) noexcept {
        if (count_ == 0) return false;
        to.emplace(std::move(*items_[first_]));
        items_[first_].reset();
        first_ = (first_ + 1) % capacity_;
        count_--;
        senders_.wake_one();
        return true;
    }

    const void *loop_;
    std::size_t capacity_, first_ = 0, count_ = 0;
    std::unique_ptr<std::optional<T>[]> items_;
    waiters<true> senders_{};
    waiters<false> receivers_{};
    bool closed_ = false;
};

} // namespace uvhttp

#endif
