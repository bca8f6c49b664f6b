/* Owns: the configuration for C++, with designated initialisers: every field of uvhttp_server_config_t as an optional
 * value. A test compares the lists with the library's table. May include: server.h. */
#ifndef UVHTTP_CONFIG_HPP
#define UVHTTP_CONFIG_HPP

#include <uvhttp/server.h>

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
    X(keepalive_requests_max)                                                                                          \
    X(iteration_requests_max)                                                                                          \
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
    X(proxy_fields)                                                                                                    \
    X(drain_idle_ms)                                                                                                   \
    X(worker_queue_timeout_ms)                                                                                         \
    X(worker_live_max)                                                                                                 \
    X(spool_memory)                                                                                                    \
    X(spool_size_max)                                                                                                  \
    X(connections_per_address_max)                                                                                     \
    X(descriptors_reserved)                                                                                            \
    X(raise_descriptor_limit)                                                                                          \
    X(tls_clients)                                                                                                     \
    X(tls_min_version)                                                                                                 \
    X(tls_max_version)                                                                                                 \
    X(tls_handshake_timeout)                                                                                           \
    X(tls_tickets)                                                                                                     \
    X(tls_ticket_period)                                                                                               \
    X(tls_kernel)                                                                                                      \
    X(http2)                                                                                                           \
    X(http2_concurrent_streams_max)                                                                                    \
    X(http2_header_list_size_max)                                                                                      \
    X(http2_table_size_max)                                                                                            \
    X(http2_stream_window)                                                                                             \
    X(http2_connection_window)                                                                                         \
    X(http2_connection_memory_max)                                                                                     \
    X(http2_resets_max)                                                                                                \
    X(metrics)                                                                                                         \
    X(metrics_series_max)                                                                                              \
    X(log_format)                                                                                                      \
    X(drain_grace_ms)                                                                                                  \
    X(descriptor_limit)                                                                                                \
    X(upgrade_timeout)                                                                                                 \
    X(trace)                                                                                                           \
    X(trace_ratio)                                                                                                     \
    X(trace_delay_ms)                                                                                                  \
    X(trace_queue_size)                                                                                                \
    X(server_timing)
#define UVHTTP_HPP_TEXTS(X)                                                                                            \
    X(tls_certificate)                                                                                                 \
    X(tls_key)                                                                                                         \
    X(tls_ocsp)                                                                                                        \
    X(tls_client_ca)                                                                                                   \
    X(tls_client_crl)                                                                                                  \
    X(tls_alpn)                                                                                                        \
    X(spool_directory)                                                                                                 \
    X(tcp_congestion_control)                                                                                          \
    X(admin)                                                                                                           \
    X(admin_token)                                                                                                     \
    X(pid_file)                                                                                                        \
    X(user)                                                                                                            \
    X(group)                                                                                                           \
    X(umask)                                                                                                           \
    X(trace_endpoint)                                                                                                  \
    X(trace_service)
#define UVHTTP_HPP_PERFORMANCE(X)                                                                                      \
    X(performance_mode)                                                                                                \
    X(log_level)                                                                                                       \
    X(enable_statistics)

/** The fields of uvhttp_server_config_t (<uvhttp/server.h>). Fields that are not set keep their defaults. */
struct config {
    struct performance_config {
#define UVHTTP_HPP_FIELD(name) std::optional<decltype(uvhttp_performance_config_t::name)> name{};
        UVHTTP_HPP_PERFORMANCE(UVHTTP_HPP_FIELD)
#undef UVHTTP_HPP_FIELD
    };
#define UVHTTP_HPP_FIELD(name) std::optional<decltype(uvhttp_server_config_t::name)> name{};
    UVHTTP_HPP_CONFIG(UVHTTP_HPP_FIELD)
#undef UVHTTP_HPP_FIELD
#define UVHTTP_HPP_FIELD(name) const char *name = nullptr;
    UVHTTP_HPP_TEXTS(UVHTTP_HPP_FIELD)
#undef UVHTTP_HPP_FIELD
    performance_config performance{};

    /** Sets the fields that are set here, in a configuration loaded from a file before. */
    void apply(uvhttp_server_config_t &to) const noexcept {
#define UVHTTP_HPP_FIELD(name)                                                                                         \
    if (name) to.name = *name;
        UVHTTP_HPP_CONFIG(UVHTTP_HPP_FIELD)
#undef UVHTTP_HPP_FIELD
#define UVHTTP_HPP_FIELD(name)                                                                                         \
    if (performance.name) to.performance.name = *performance.name;
        UVHTTP_HPP_PERFORMANCE(UVHTTP_HPP_FIELD)
#undef UVHTTP_HPP_FIELD
        /* A text that is too long becomes one that uvhttp_server_new refuses. Its origin is this code, no option. */
        const uvhttp_config_origins_t origins = to.origins;
#define UVHTTP_HPP_FIELD(name)                                                                                         \
    if (name && uvhttp_server_config_set(&to, #name, name, nullptr, 0) != 0) to.name[0] = '\n';
        UVHTTP_HPP_TEXTS(UVHTTP_HPP_FIELD)
#undef UVHTTP_HPP_FIELD
        to.origins = origins;
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
#undef UVHTTP_HPP_TEXTS

} // namespace uvhttp

#endif
