/* Owns: concurrent waits of C++ coroutines: when_all, when_any, spawn. uvhttp.hpp includes it. May include: the public
 * headers.
 *
 * A task that no coroutine awaits any more is cancelled: its frame is destroyed, with its variables, at the co_await
 * where it is suspended. All branches run on the loop's thread, one at a time. A branch is a task or any other
 * awaitable. */
#ifndef UVHTTP_HPP
#include <uvhttp.hpp> /* which includes this file in its place */
#elif !defined(UVHTTP_TASKS_HPP)
#define UVHTTP_TASKS_HPP

#include <array>
#include <cstddef>

namespace uvhttp {

namespace detail {

template <class A> decltype(auto) awaiter_of(A &&awaited) {
    if constexpr (requires { std::forward<A>(awaited).operator co_await(); })
        return std::forward<A>(awaited).operator co_await();
    else
        return std::forward<A>(awaited);
}

template <class T> inline constexpr bool is_task = false;
template <class T> inline constexpr bool is_task<task<T>> = true;

/* A task is moved into the branch. The branch refers to anything else, which lives in the expression that awaits it. */
template <class A>
using branch_argument = std::conditional_t<is_task<std::remove_cvref_t<A>>, std::remove_cvref_t<A>, A &>;
template <class A>
using branch_awaited =
    std::conditional_t<is_task<std::remove_cvref_t<A>>, std::remove_cvref_t<A> &&, std::remove_reference_t<A> &>;
template <class A>
using branch_result = std::remove_cvref_t<decltype(awaiter_of(std::declval<branch_awaited<A>>()).await_resume())>;
template <class A>
using branch_value =
    std::conditional_t<std::is_void_v<decltype(awaiter_of(std::declval<branch_awaited<A>>()).await_resume())>,
                       std::monostate, branch_result<A>>;

/* The owner of branches. It is called when one has ended, and returns what runs next. */
struct branch_owner {
    virtual std::coroutine_handle<> ended(std::size_t index) noexcept = 0;

  protected:
    ~branch_owner() = default;
};

/* A coroutine that awaits one thing on behalf of its owner. */
class branch {
  public:
    struct promise_type {
        branch_owner *owner = nullptr;
        std::size_t index = 0;
        std::exception_ptr exception{};

        struct final_awaiter {
            bool await_ready() const noexcept {
                return false;
            }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) const noexcept {
                return self.promise().owner->ended(self.promise().index);
            }
            void await_resume() const noexcept {}
        };

        branch get_return_object() noexcept {
            return branch(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() const noexcept {
            return {};
        }
        final_awaiter final_suspend() const noexcept {
            return {};
        }
        void return_void() const noexcept {}
        void unhandled_exception() noexcept {
            exception = std::current_exception();
        }
    };

    branch() noexcept = default;
    explicit branch(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}
    branch(branch &&other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
    branch &operator=(branch &&other) noexcept {
        std::swap(frame_, other.frame_);
        return *this;
    }
    ~branch() {
        cancel();
    }

    void start(branch_owner &owner, std::size_t index) {
        frame_.promise().owner = &owner;
        frame_.promise().index = index;
        frame_.resume();
    }
    void cancel() noexcept {
        if (frame_) std::exchange(frame_, nullptr).destroy();
    }
    std::exception_ptr exception() const noexcept {
        return frame_.promise().exception;
    }

  private:
    std::coroutine_handle<promise_type> frame_{};
};

template <class A> branch run_branch(branch_argument<A> awaited, std::optional<branch_value<A>> &value) {
    if constexpr (std::is_same_v<branch_value<A>, std::monostate>) {
        co_await static_cast<branch_awaited<A>>(awaited);
        value.emplace();
    } else {
        value.emplace(co_await static_cast<branch_awaited<A>>(awaited));
    }
}

/* The awaitable of when_all and when_any, which can be awaited once. The deciding branch wakes the awaiting coroutine,
 * after the others have been cancelled. It must not be moved: the branches refer to it. */
template <bool any, class... A> class [[nodiscard]] gathering final : branch_owner {
    static constexpr std::size_t count = sizeof...(A);
    static constexpr std::size_t none = count;

  public:
    explicit gathering(A &&...awaited) : gathering(std::index_sequence_for<A...>(), std::forward<A>(awaited)...) {}
    gathering(const gathering &) = delete;
    gathering &operator=(const gathering &) = delete;

    bool await_ready() const {
        if (waiter_) throw error(UVHTTP_E_STATE); /* awaited before */
        return false;
    }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiter) {
        waiter_ = waiter;
        starting_ = true;
        for (std::size_t i = 0; i < count && !over(); i++) branches_[i].start(*this, i);
        starting_ = false;
        if (!over()) return std::noop_coroutine();
        cancel_others();
        return waiter_;
    }
    auto await_resume() {
        if (decided_ != none && branches_[decided_].exception())
            std::rethrow_exception(branches_[decided_].exception());
        if constexpr (any)
            return first(std::index_sequence_for<A...>());
        else
            return std::apply([](auto &...value) { return std::tuple<branch_value<A>...>(std::move(*value)...); },
                              values_);
    }

  private:
    template <std::size_t... i>
    gathering(std::index_sequence<i...>, A &&...awaited)
        : branches_{run_branch<A>(static_cast<branch_awaited<A>>(awaited), std::get<i>(values_))...} {}

    bool over() const noexcept {
        return decided_ != none || left_ == 0;
    }
    /* Never the one that has just ended: it still runs. */
    void cancel_others() noexcept {
        for (std::size_t i = 0; i < count; i++)
            if (i != decided_ && decided_ != none) branches_[i].cancel();
    }
    std::coroutine_handle<> ended(std::size_t index) noexcept override {
        left_--;
        if (decided_ == none && (any || branches_[index].exception())) decided_ = index;
        if (starting_ || !over()) return std::noop_coroutine();
        cancel_others();
        return waiter_;
    }
    template <std::size_t... i> auto first(std::index_sequence<i...>) {
        std::optional<std::variant<branch_value<A>...>> found;
        ((decided_ == i ? void(found.emplace(std::in_place_index<i>, std::move(*std::get<i>(values_)))) : void()), ...);
        return std::move(*found);
    }

    std::tuple<std::optional<branch_value<A>>...> values_{};
    std::coroutine_handle<> waiter_{};
    std::size_t left_ = count, decided_ = none; /* decided_: the branch that any waits for, or that has thrown */
    bool starting_ = false;
    std::array<branch, count> branches_; /* last: they refer to the rest */
};

} // namespace detail

/** Waits for all branches concurrently:
 *
 *     auto [user, orders] = co_await uvhttp::when_all(load_user(id), load_orders(id));
 *
 * The result is a tuple of their values, std::monostate for those without. The first exception cancels the others and
 * is thrown. An awaitable that is not a task must live in the same expression, as the temporaries of a call do. */
template <class... A>
requires(sizeof...(A) > 0) detail::gathering<false, A...> when_all(A &&...awaited) {
    return detail::gathering<false, A...>(std::forward<A>(awaited)...);
}

/** Waits for the first branch to end, and cancels the others:
 *
 *     auto first = co_await uvhttp::when_any(load(file), uvhttp::sleep(500ms));
 *     if (first.index() == 1) ... // too late
 *
 * The result is a variant, whose index is that of the branch. If that branch has thrown, its exception is thrown.
 * Branches start in order, and no further branch starts when one has ended. A job of a worker thread (server.work)
 * still runs to its end. */
template <class... A>
requires(sizeof...(A) > 0) detail::gathering<true, A...> when_any(A &&...awaited) {
    return detail::gathering<true, A...>(std::forward<A>(awaited)...);
}

/** A task that runs concurrently with the coroutine that started it (spawn). Destroying this object cancels the task,
 * and so does the end of the coroutine that has it in a variable. */
template <class T> class [[nodiscard]] spawned final : detail::branch_owner {
    using value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  public:
    explicit spawned(task<T> &&run) : branch_(detail::run_branch<task<T>>(std::move(run), value_)) {
        branch_.start(*this, 0);
    }
    spawned(const spawned &) = delete;
    spawned &operator=(const spawned &) = delete;
    ~spawned() {
        uvhttp_timer_stop(&wakes_);
    }

    /** Returns whether it has ended, or was cancelled. */
    bool done() const noexcept {
        return ended_ || cancelled_;
    }
    /** Destroys the task at the co_await where it is suspended. A coroutine that awaits the task gets UVHTTP_E_ABORTED
     * after this call: it may destroy the caller. No effect after its end. The task must not call this itself. */
    void cancel() {
        if (done()) return;
        cancelled_ = true;
        branch_.cancel();
        if (waiter_) (void)uvhttp_timer_start(&wakes_, 0, wake, this); /* it cannot fail on this thread */
    }

    /** co_await job: waits for its end, and returns its value or throws its exception. One coroutine can wait, and the
     * value is returned once; otherwise UVHTTP_E_STATE. */
    auto operator co_await() noexcept {
        struct awaiter {
            spawned &it;
            bool await_ready() const {
                if (it.waiter_ || it.given_) throw error(UVHTTP_E_STATE);
                return it.done();
            }
            void await_suspend(std::coroutine_handle<> waiter) noexcept {
                it.waiter_ = waiter;
                armed = true;
            }
            T await_resume() {
                armed = false;
                it.waiter_ = nullptr;
                it.given_ = true;
                if (it.cancelled_) throw error(UVHTTP_E_ABORTED);
                if (it.branch_.exception()) std::rethrow_exception(it.branch_.exception());
                if constexpr (!std::is_void_v<T>) return std::move(*it.value_);
            }
            explicit awaiter(spawned &awaited) noexcept : it(awaited) {}
            awaiter(const awaiter &) = delete;
            awaiter &operator=(const awaiter &) = delete;
            ~awaiter() {
                if (armed) it.waiter_ = nullptr; /* the waiting coroutine is destroyed; this object may outlive it */
            }
            bool armed = false;
        };
        return awaiter(*this);
    }

  private:
    std::coroutine_handle<> ended(std::size_t) noexcept override {
        ended_ = true;
        return waiter_ ? std::exchange(waiter_, nullptr) : std::noop_coroutine();
    }
    static void wake(uvhttp_timer_t *, void *self) {
        auto *it = static_cast<spawned *>(self);
        if (it->waiter_) std::exchange(it->waiter_, nullptr).resume();
    }

    uvhttp_timer_t wakes_{}; /* the waiter, once the task is cancelled */
    std::optional<value> value_{};
    std::coroutine_handle<> waiter_{};
    bool ended_ = false, cancelled_ = false, given_ = false;
    detail::branch branch_; /* last: it refers to the rest */
};

/** Starts a task. It runs until its first wait in this call, and then concurrently with the caller:
 *
 *     auto job = uvhttp::spawn(refresh(cache));
 *     ...
 *     co_await job; // or job.cancel(), or neither: the end of this coroutine cancels it
 */
template <class T> spawned<T> spawn(task<T> run) {
    return spawned<T>(std::move(run));
}

} // namespace uvhttp

#endif
