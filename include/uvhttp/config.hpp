/* Owns: the configuration as C++ writes it, with designated initialisers: every field of uvhttp_server_config_t, and
 * for each whether it was named. A test compares the lists with the library's table. May include: server.h. */
#ifndef UVHTTP_CONFIG_HPP
#define UVHTTP_CONFIG_HPP

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* in C a function may be called as a struct is */
#include <uvhttp/server.h>
#pragma GCC diagnostic pop

#include <optional>

namespace uvhttp {

#define UVHTTP_HPP_CONFIG(X)                                                                                           \
    X(io_threads)                                                                                                      \
    X(engine)                                                                                                          \
    X(max_connections)                                                                                                 \
    X(backlog)                                                                                                         \
    X(read_buffer_size)                                                                                                \
    X(read_buffer_count)                                                                                               \
    X(write_buffer_size)                                                                                               \
    X(write_queue_max)                                                                                                 \
    X(connection_timeout)                                                                                              \
    X(body_timeout)                                                                                                    \
    X(keepalive_timeout)                                                                                               \
    X(write_timeout)                                                                                                   \
    X(min_receive_rate)                                                                                                \
    X(min_send_rate)                                                                                                   \
    X(rate_grace)                                                                                                      \
    X(drain_timeout)                                                                                                   \
    X(request_line_max)                                                                                                \
    X(headers_size_max)                                                                                                \
    X(header_count_max)                                                                                                \
    X(body_size_max)                                                                                                   \
    X(chunk_extension_max)                                                                                             \
    X(trailer_size_max)                                                                                                \
    X(request_memory_max)                                                                                              \
    X(keepalive_requests)                                                                                              \
    X(turn_requests_max)                                                                                               \
    X(half_close)                                                                                                      \
    X(install_signal_handlers)                                                                                         \
    X(quiet)                                                                                                           \
    X(worker_threads)                                                                                                  \
    X(worker_threads_min)                                                                                              \
    X(max_backlog)                                                                                                     \
    X(worker_idle_timeout)                                                                                             \
    X(worker_warn_ms)                                                                                                  \
    X(handler_warn_ms)                                                                                                 \
    X(coroutine_stack_size)                                                                                            \
    X(coroutines_max)                                                                                                  \
    X(max_connections_per_address)                                                                                     \
    X(descriptors_reserved)                                                                                            \
    X(raise_descriptor_limit)
#define UVHTTP_HPP_PERFORMANCE(X)                                                                                      \
    X(performance_mode)                                                                                                \
    X(log_level)                                                                                                       \
    X(enable_statistics)

/** The fields of uvhttp_server_config_t (<uvhttp/server.h>), of which those that are not named keep their defaults. */
struct config {
    struct performance_config {
#define UVHTTP_HPP_FIELD(name) std::optional<decltype(uvhttp_performance_config_t::name)> name{};
        UVHTTP_HPP_PERFORMANCE(UVHTTP_HPP_FIELD)
#undef UVHTTP_HPP_FIELD
    };
#define UVHTTP_HPP_FIELD(name) std::optional<decltype(uvhttp_server_config_t::name)> name{};
    UVHTTP_HPP_CONFIG(UVHTTP_HPP_FIELD)
#undef UVHTTP_HPP_FIELD
    performance_config performance{};

    /** Sets what is named here, for a configuration that was loaded from a file before. */
    void apply(uvhttp_server_config_t &to) const noexcept {
#define UVHTTP_HPP_FIELD(name)                                                                                         \
    if (name) to.name = *name;
        UVHTTP_HPP_CONFIG(UVHTTP_HPP_FIELD)
#undef UVHTTP_HPP_FIELD
#define UVHTTP_HPP_FIELD(name)                                                                                         \
    if (performance.name) to.performance.name = *performance.name;
        UVHTTP_HPP_PERFORMANCE(UVHTTP_HPP_FIELD)
#undef UVHTTP_HPP_FIELD
    }

    uvhttp_server_config_t native() const noexcept {
        uvhttp_server_config_t made;
        uvhttp_server_config_default(&made);
        apply(made);
        return made;
    }
};

#undef UVHTTP_HPP_CONFIG
#undef UVHTTP_HPP_PERFORMANCE

} // namespace uvhttp

#endif
