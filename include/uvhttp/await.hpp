/* Owns: what else a coroutine of C++ may co_await: descriptors, connections to other servers, HTTP requests to them,
 * channels. Included by uvhttp.hpp, which has the rest. May include: the public headers.
 *
 * Each wait is on the loop's thread, and ends early when the coroutine is destroyed. A deadline that has passed throws
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

/** No deadline. */
inline constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

namespace detail {

/* A wait with a deadline. Derived has its own wait begin in arm_own(), end with over(), and stop in disarm_own(). */
template <class Derived, bool as_temporary = true> class waiting : public awaitable<Derived, as_temporary> {
  protected:
    template <class, bool> friend class awaitable;

    explicit waiting(std::chrono::milliseconds timeout) noexcept : timeout_(timeout) {}

    void arm(std::coroutine_handle<> waiter) {
        if (timeout_ <= std::chrono::milliseconds::zero()) throw error(UVHTTP_E_TIMEOUT);
        waiter_ = waiter;
        check(self().arm_own());
        if (timeout_ == forever) return;
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
        waiter_.resume(); /* which disarms it; *this may be gone */
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

/* One that waits for a descriptor, again and again until `attempt` says something else than UVHTTP_E_AGAIN. */
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
        if (::poll(&now, 1, 0) <= 0) return UVHTTP_E_AGAIN; /* or a signal came just now */
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

/** co_await uvhttp::readable(fd, 500ms): until it can be read without blocking; an error or the end of a connection
 * counts. One coroutine of a loop can wait for a descriptor. Throws as uvhttp_fd_watcher_start returns. */
inline detail::becoming_ready readable(int fd, std::chrono::milliseconds timeout = forever) noexcept {
    return {fd, UVHTTP_READABLE, timeout};
}
inline detail::becoming_ready writable(int fd, std::chrono::milliseconds timeout = forever) noexcept {
    return {fd, UVHTTP_WRITABLE, timeout};
}

/** A connected socket, closed with the object. It may be moved, but not while something waits for it. */
class socket {
  public:
    explicit socket(int fd) noexcept : fd_(fd) {} /* takes it */
    socket(socket &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    socket &operator=(socket &&other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~socket() {
        if (fd_ >= 0) ::close(fd_);
    }

    /** co_await it.read(memory, 1s): what is there, at least a byte, and how many; 0 when the peer has sent all. */
    detail::reading read(std::span<char> memory, std::chrono::milliseconds timeout = forever) noexcept {
        return {fd_, memory, timeout};
    }
    /** co_await it.write(data, 1s): all of it. */
    detail::writing write(std::string_view data, std::chrono::milliseconds timeout = forever) noexcept {
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
    if (time == forever) return UINT32_MAX;
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(time.count(), 0, UINT32_MAX - 1));
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

/** co_await uvhttp::connect("127.0.0.1:80", 1s): a socket; addresses and errors are those of uvhttp_coro_connect. */
inline detail::connecting connect(const char *address, std::chrono::milliseconds timeout = forever) noexcept {
    return {address, timeout};
}

/* --- HTTP requests to other servers --- */

/** What is asked: <uvhttp/client.h>. The views must be valid until the response has come, as a literal or a variable of
 * the coroutine is. */
struct client_request {
    const char *url = nullptr;
    const char *method = nullptr; /* "GET" */
    std::span<const uvhttp_client_header_t> headers{};
    std::string_view body{};
    std::chrono::milliseconds timeout{30000}; /* for all of it */
    std::uint32_t response_size_max = 0;      /* the default of C */
    std::uint32_t head_size_max = 0;          /* the same */
    const char *unix_socket = nullptr;        /* where to connect in place of the url's host and port */
    std::uint32_t interim_max = 0;            /* the default of C */
};

/* Made from braces in the expression that awaits it: its bytes may be copied (detail::copies_temporaries). */
static_assert(std::is_trivially_copyable_v<client_request>);

/** The response of another server, whatever its status. Views are valid as long as the object. */
class client_response {
  public:
    explicit client_response(uvhttp_client_response_t *native) noexcept : native_(native) {} /* takes it */
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
        if (!ended_) response_ = client_response(nullptr); /* which cancels it */
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

/** co_await uvhttp::fetch({.url = "http://127.0.0.1:81/", .timeout = 1s}): the whole response. Throws what
 * uvhttp_coro_request returns. */
inline detail::fetching fetch(const client_request &request) noexcept {
    return detail::fetching(request);
}

/* --- channels --- */

/** A bounded queue between coroutines of one loop: those of a request, or of several. It is made on that loop's thread
 * (else it throws UVHTTP_E_STATE), with all its memory, and outlives who waits in it. */
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
        /* The one that has waited longest looks again; a second wake goes to the next. */
        void wake_one() noexcept {
            waiter<sends> *it = first;
            while (it && it->woken) it = it->after;
            if (it) it->wake();
        }
        void wake_all() noexcept {
            for (waiter<sends> *it = first; it; it = it->after) it->wake();
        }
    };

    /* Who is woken runs in a turn of its own and not in who wakes it, and looks first whether what it was woken for is
     * still there. An item that could not be sent stays with the wait, which may be awaited again. */
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
            if (std::exchange(woken, false)) list().wake_one(); /* it is for the next */
        }
        auto result() {
            if (sends || this->status_ != UVHTTP_E_EOF) check(this->status_);
            if constexpr (!sends) return std::exchange(item, std::nullopt);
        }

        /* Whether the wait is over; status_ says how. */
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
    /** capacity: items, 1.. */
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

    /** co_await it.send(item, 1s): waits while it is full. Throws UVHTTP_E_CLOSED. */
    sending send(T item, std::chrono::milliseconds timeout = forever) noexcept {
        return {*this, std::move(item), timeout};
    }
    /** co_await it.receive(1s): the oldest item; std::nullopt when it is closed and empty. */
    receiving receive(std::chrono::milliseconds timeout = forever) noexcept {
        return {*this, timeout};
    }
    /** No more is sent; what is in it can still be received. */
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
