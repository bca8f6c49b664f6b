/* Owns: the HTTP server: configuration, routes, life cycle, metrics. */
#ifndef UVHTTP_SERVER_H
#define UVHTTP_SERVER_H

#include <uvhttp/log.h>
#include <uvhttp/method.h>
#include <uvhttp/route.h>
#include <uvhttp/tcp.h>
#include <uvhttp/tls.h>

UVHTTP_BEGIN_DECLS

struct uv_loop_s;

/** Log and statistics settings of a deployment. */
typedef struct uvhttp_performance_config {
    bool performance_mode;        /**< true: log_level is at least WARN. Default false */
    uvhttp_log_level_t log_level; /**< threshold to set at start. Default: that of the program (log.h) */
    bool enable_statistics;       /**< response-time histogram. Default true. Counters are always kept */
} uvhttp_performance_config_t;

typedef enum uvhttp_engine {
    UVHTTP_ENGINE_AUTO, /**< io_uring where it works, else epoll. uvhttp_server_engine returns the choice and its reason
                         */
    UVHTTP_ENGINE_URING, /**< io_uring, or fail */
    UVHTTP_ENGINE_EPOLL
} uvhttp_engine_t;

#define UVHTTP_CONFIG_TEXT_SIZE 1024 /**< bytes of a text in the configuration, including its NUL */
#define UVHTTP_CONFIG_FIELDS_MAX 160 /**< maximum of fields in the configuration */

/** Where the value of a field comes from. */
typedef enum uvhttp_config_source {
    UVHTTP_CONFIG_FROM_DEFAULT,
    UVHTTP_CONFIG_FROM_FILE,        /**< uvhttp_server_config_load */
    UVHTTP_CONFIG_FROM_ENVIRONMENT, /**< uvhttp_server_config_env */
    UVHTTP_CONFIG_FROM_OPTION,      /**< uvhttp_server_config_set */
    UVHTTP_CONFIG_FROM_CODE         /**< the program wrote to the structure */
} uvhttp_config_source_t;

/** Where the fields of a configuration were set. The functions that set fields write it, and
 * uvhttp_server_config_explain reads it. It is copied with the configuration. Programs do not use its members. */
typedef struct uvhttp_config_origins {
    char file[256]; /**< the last file that was loaded */
    struct {
        uint32_t value;  /**< hash of the value that was set; the program changed the field later if it differs */
        uint16_t line;   /**< of the file; 0: not known */
        uint16_t source; /**< uvhttp_config_source_t */
    } fields[UVHTTP_CONFIG_FIELDS_MAX];
} uvhttp_config_origins_t;

/** Initialise it with uvhttp_server_config_default, then change single fields. Sizes are in bytes. Times are in
 * seconds, unless the name ends in _ms. Where a field says so, UVHTTP_NEVER means that there is no such limit; in a
 * file, an option or the environment that is the word `never`, or `unlimited` for a count. uvhttp_server_new refuses a
 * value out of range with a message that names it. */
typedef struct uvhttp_server_config {
    uint32_t struct_size;       /**< size in the header that the program was compiled with; set by config_default */
    uint32_t io_threads;        /**< loop threads, 0..1024. 0 (default): one per CPU */
    uvhttp_engine_t engine;     /**< default AUTO. The environment variable UVHTTP_ENGINE overrides AUTO */
    uint32_t max_connections;   /**< open connections over all loops, 1..10,000,000; default 10000. Further clients wait
                                   in the backlog */
    uint32_t backlog;           /**< backlog of listen(2), 1..65535; default 4096 */
    uint32_t read_buffer_size;  /**< bytes of one receive, 1024..1 MiB; default 16384 */
    uint32_t read_buffer_count; /**< receive buffers per loop (io_uring), a power of two 8..32768; default 64 */
    uint32_t write_buffer_size; /**< bytes queued for one client above which its pipelined requests wait, 1024..64 MiB;
                                   default 16384 */
    uint64_t write_queue_max;   /**< maximum of bytes queued by uvhttp_response_write, 4096..; default 1 MiB */

    uint32_t connection_timeout; /**< from the first byte of a request (or the accept) to its complete head, 1..604800
                                    or UVHTTP_NEVER; default 30 */
    uint32_t body_timeout;       /**< time without a byte of a request body; each byte restarts it. 1..604800 or
                                    UVHTTP_NEVER; default 300 */
    uint32_t keepalive_timeout;  /**< idle time between requests, 1..604800 or UVHTTP_NEVER; default 60 */
    uint32_t write_timeout;      /**< time in which the client's system acknowledges no byte of queued output; each byte
                                    restarts it. 1..604800 or UVHTTP_NEVER; default 300 */
    uint32_t min_receive_rate; /**< bytes per second at which a client must send a body, 1..2^30 or UVHTTP_NEVER; below
                                  it: 408. Bytes sent ahead count for rate_grace seconds. Default 240 */
    uint32_t min_send_rate; /**< bytes per second at which a client must acknowledge queued output, including what the
                               kernel holds, 1..2^30 or UVHTTP_NEVER; below it the connection is reset. Bytes
                               acknowledged ahead count as for min_receive_rate. Default 240 */
    uint32_t rate_grace;    /**< seconds of silence before the minimum rates apply, at the start and after each byte,
                               0..604800; default 5 */
    uint32_t drain_timeout; /**< time from stop until open requests are cut off, 0..604800. 0: at once; default 30 */

    uint32_t request_line_max;    /**< bytes, 64..1 MiB; default 8192; above: 414 */
    uint32_t headers_size_max;    /**< bytes, 64..1 MiB; default 32768; above: 431 */
    uint32_t header_count_max;    /**< 1..1000; default 100; above: 431 */
    uint64_t body_size_max;       /**< bytes. 0: requests have no bodies; default 1 MiB; above: 413 */
    uint32_t chunk_extension_max; /**< bytes of all chunk extensions of a body; default 4096 */
    uint32_t trailer_size_max;    /**< bytes; default 8192 */
    uint64_t request_memory_max;  /**< bytes for header fields, parameters and copied bodies of one response; default 16
                                     MiB */
    uint32_t keepalive_requests_max; /**< requests on one connection, 1.. or UVHTTP_NEVER (default) */
    uint32_t iteration_requests_max; /**< pipelined requests of one connection in one loop iteration, 1..; default 128.
                                   An HTTP/1 request counts once more per 128 bytes of its head and per 8
                                   chunks of its body; 8 frames of a WebSocket count as a request, and so do
                                   256 bytes that its messages inflate to */
    bool half_close; /**< true: a client that sends FIN still waits for a deferred response. Default false: its request
                        is aborted, except during the lookup of a static file */
    bool install_signal_handlers; /**< uvhttp_server_run drains on SIGINT and SIGTERM, and a second one cuts off. From
                                     its return until uvhttp_server_free one more is ignored, the next ends the process;
                                     a handler that the program has set is in force again. Default true */
    bool quiet;                   /**< no start and stop lines on stderr; default false */
    uvhttp_performance_config_t performance;

    uint32_t worker_threads;     /**< maximum of threads for UVHTTP_EXEC_WORKER and uvhttp_work, 1..16384; default 512.
                                    Threads start on demand: one per CPU, and more while those are blocked */
    uint32_t worker_threads_min; /**< threads that start with the server and stay, 0..worker_threads; default 0 */
    uint32_t max_backlog; /**< jobs that wait for a thread, 1..10,000,000; default 10000; above: 503 with Retry-After */
    uint32_t worker_idle_timeout; /**< seconds without a job after which a thread exits, 1..604800 or UVHTTP_NEVER;
                                     default 30 */
    uint32_t worker_warn_ms;      /**< ms after which a running job is counted (work_slow) and logged, 1..86,400,000 or
                                     UVHTTP_NEVER; not a handler with live_body, which waits for its client. Default 10000 */
    uint32_t handler_warn_ms; /**< ms for which a handler may block its loop before it is counted (handler_blocked) and
                                 logged, 1..86,400,000 or UVHTTP_NEVER; default 100 */
    uint32_t coroutine_stack_size; /**< stack bytes of a coroutine (coro.h), 16 KiB..64 MiB, rounded up to pages. Only
                                      touched pages take memory; default 64 KiB */
    uint32_t coroutines_max; /**< coroutines over all loops, 1..10,000,000; default 30000; above: 503. More than 32,000
                                may need a higher vm.max_map_count */
    uint32_t drain_idle_ms;  /**< ms after uvhttp_server_stop, or after a response, in which an idle connection still
                                accepts a request. The response has `Connection: close`, so that no request is lost that
                                was sent before the client could know. 0..86,400,000; default 1000 */

    /* TLS, for uvhttp_tls_from_config. See the fields of uvhttp_tls_options_t (tls.h). Texts are stored in the
     * structure, so that it can be copied. They are terminated; "" means none. */
    char tls_certificate[UVHTTP_CONFIG_TEXT_SIZE]; /**< PEM files, separated by commas: a certificate with its chain
                                                      each */
    char tls_key[UVHTTP_CONFIG_TEXT_SIZE];         /**< PEM files: the key of each certificate, in the same order */
    char tls_ocsp[UVHTTP_CONFIG_TEXT_SIZE]; /**< DER files: OCSP responses to staple, in the same order. An entry may be
                                               empty */
    char tls_client_ca[UVHTTP_CONFIG_TEXT_SIZE];  /**< PEM file: certificate authorities of client certificates */
    char tls_client_crl[UVHTTP_CONFIG_TEXT_SIZE]; /**< PEM file: revocation lists of those authorities */
    uvhttp_tls_clients_t tls_clients;             /**< client certificates: any (default), verify or require */
    uvhttp_tls_version_t tls_min_version;         /**< default TLS 1.2 */
    uvhttp_tls_version_t tls_max_version;         /**< default TLS 1.3 */
    char tls_alpn[UVHTTP_CONFIG_TEXT_SIZE]; /**< protocols by preference, separated by commas, or "none". "" (default):
                                               h2, unless http2 is off, then http/1.1 */
    uint32_t tls_handshake_timeout; /**< seconds from the accept to the end of the handshake, 1..3600; default 10 */
    bool tls_tickets;               /**< false: sessions are not resumed; default true */
    uint32_t tls_ticket_period; /**< seconds for which a ticket key encrypts new tickets, 1..604800; default 43200 */
    bool tls_kernel;            /**< true: use kernel TLS where it is available (tls.h); default false */

    uint32_t worker_queue_timeout_ms; /**< ms that a handler, or the write of a spooled body, may wait for a worker
                                         thread; above: 503 with Retry-After. 1..86,400,000 or UVHTTP_NEVER; default
                                         10000. Jobs of uvhttp_work have no such limit */
    uint32_t worker_live_max; /**< worker threads that handlers with live_body may hold, 0..16384; above: 503 with
                                 Retry-After. 0 (default): half of worker_threads, at least one */
    uint32_t spool_memory;    /**< bytes of a spooled body (route.h, stream_body) that stay in memory, 4096..64 MiB;
                                 default 65536. The rest goes to a temporary file in spool_directory */
    uint64_t spool_size_max;  /**< bytes of all temporary files together; default 16 GiB; 0: only what fits into
                                 spool_memory is accepted. A body that needs a file and announces more: 413. A body that
                                 finds too little space: 503 with Retry-After */
    uint32_t proxy_fields;    /**< what to accept from trusted proxies (proxy.h): UVHTTP_PROXY_FOR, _PROTO and _HOST,
                                 combined; as text "for,proto,host". Used when the options of uvhttp_server_trust_proxies
                                 name no fields; default UVHTTP_PROXY_FOR */
    uint32_t
        connections_per_address_max; /**< connections of one client address over all loops: an IPv4 address or the /64
                                        of an IPv6 address. 1..10,000,000 or UVHTTP_NEVER (default). Further connections
                                        are reset before anything is read. Unix sockets and trusted proxies (proxy.h)
                                        are exempt. With the PROXY protocol, the address is that of the client */
    uint32_t descriptors_reserved;   /**< file descriptors reserved for files, upstream connections and the program,
                                        0..1,000,000; default 512. If RLIMIT_NOFILE is too low, a quarter of it is
                                        reserved at most */
    bool raise_descriptor_limit;     /**< uvhttp_server_run raises the soft RLIMIT_NOFILE of the process to what
                                        max_connections and descriptors_reserved need, up to the hard limit; default true. A
                                        server attached to a loop never does */
    char spool_directory[UVHTTP_CONFIG_TEXT_SIZE]; /**< directory of the temporary files of spooled bodies, at most 1023
                                                      bytes. The files have no name and vanish with the process. ""
                                                      (default): TMPDIR from the environment, else /var/tmp. On tmpfs
                                                      the files take memory. A directory that is given
                                                      and cannot be written ends the start; if files cannot be made
                                                      later, bodies above spool_memory get 500 */
    char tcp_congestion_control[UVHTTP_CONFIG_TEXT_SIZE]; /**< TCP congestion control of accepted connections. ""
                                                             (default): "reno" on loopback addresses, where pacing has
                                                             no use; otherwise, and for inherited sockets, the system's
                                                             choice. "system": never changed. A name such as "reno":
                                                             also for inherited sockets; listen returns UVHTTP_E_CONFIG
                                                             if the kernel does not know or allow it */

    /* HTTP/2 (docs/guide/http2.md). Settings common to both protocols, such as timeouts and rates, are above. */
    bool http2; /**< HTTP/2 in addition to HTTP/1 on every address: by ALPN over TLS, by its preface in clear text;
                   default true */
    uint32_t http2_concurrent_streams_max; /**< open requests of one connection, 1..32768; default 100. Further requests
                                              are refused, and clients may repeat them */
    uint32_t http2_header_list_size_max; /**< bytes of the fields of a request: names, values and 32 per field, 1024..1
                                            MiB; default 32768; above: 431 */
    uint32_t http2_table_size_max;       /**< bytes of the HPACK table of a client's encoder, 0..4096; default 4096 */
    uint32_t http2_stream_window; /**< bytes of one request body that a client may send before the server consumes them,
                                     16384..256 KiB, at most a quarter of http2_connection_window; default 256 KiB */
    uint32_t http2_connection_window; /**< the same over all requests of a connection, 65535..1 MiB; default 1 MiB */
    uint64_t http2_connection_memory_max; /**< bytes of memory for one connection: heads, bodies, tables, control
                                             frames, 64 KiB..; default 1 MiB. Above it requests are refused, then the
                                             connection is closed */
    uint32_t http2_resets_max; /**< resets of open requests on one connection, by either side, minus completed
                                  responses, 1..1,000,000; default 200; above: the connection is closed */

    /* Metrics (metrics.h, docs/guide/metrics.md). */
    bool metrics; /**< count requests by route, method, status, protocol, scheme and error; default false. Counters and
                     the response-time histogram are kept in any case */
    uint32_t metrics_series_max; /**< combinations of those on each loop, 1..65535; default 1000. Further requests are
                                    counted together (metrics_series_overflows). A combination takes 500 bytes */

    /* The admin listener (docs/guide/admin.md). */
    char admin[UVHTTP_CONFIG_TEXT_SIZE]; /**< address of the admin listener: dashboard, metrics, health and control.
                                            "host:port" or "unix:/path"; "" (default): none. A Unix socket is created
                                            with mode 0600. Addresses other than loopback require admin_token; otherwise
                                            listen returns UVHTTP_E_CONFIG */
    char admin_token[UVHTTP_CONFIG_TEXT_SIZE]; /**< secret that admin requests must send as "Authorization: Bearer
                                                  TOKEN", 16..512 characters of [A-Za-z0-9._~+/-] with "=" at the end.
                                                  "" (default): none. No function returns it */

    uvhttp_config_origins_t origins; /**< where the fields were set */
    uvhttp_log_format_t log_format;  /**< format of log lines to set at start. Default: that of the program */
    uint32_t drain_grace_ms; /**< ms from a stop to the start of the drain. Meanwhile the server serves as before but is
                                not ready (uvhttp_server_ready), so that load balancers stop sending requests to it.
                                0..86,400,000; default 0 */

    /* Service processes (service.h, uvhttp_service_init). Other processes ignore these fields. */
    char pid_file[UVHTTP_CONFIG_TEXT_SIZE]; /**< file for the process ID, locked while the process runs. ""
                                               (default): none */
    char user[UVHTTP_CONFIG_TEXT_SIZE];     /**< user to change to after binding, a name or a number. "" (default):
                                               unchanged */
    char group[UVHTTP_CONFIG_TEXT_SIZE]; /**< group, a name or a number. "" (default): the primary group of `user`, or
                                            unchanged */
    char umask[UVHTTP_CONFIG_TEXT_SIZE]; /**< file mode creation mask, octal ("027"). "" (default): unchanged */
    uint32_t descriptor_limit; /**< RLIMIT_NOFILE of the process, soft, and hard where it is lower, 0..1,073,741,824. 0
                                  (default): unchanged, but see raise_descriptor_limit, which a limit here disables */
    uint32_t upgrade_timeout;  /**< seconds in which a new process has to be ready (uvhttp_service_upgrade), 1..86400;
                                  default 60 */
    bool trace;                /**< trace requests (W3C Trace Context) and export spans to an OpenTelemetry collector;
                                  docs/guide/tracing.md. Default false */
    double trace_ratio; /**< 0..1: the ratio of requests without `traceparent` that are sampled. For other requests the
                           flag of `traceparent` decides. Default 1 */
    char trace_endpoint[UVHTTP_CONFIG_TEXT_SIZE]; /**< URL of the collector (OTLP/HTTP, JSON). The default path is
                                                     /v1/traces. Default "http://localhost:4318" */
    char trace_service[UVHTTP_CONFIG_TEXT_SIZE];  /**< name of this service (service.name); default
                                                     "unknown_service:uvhttp" */
    uint32_t trace_delay_ms;                      /**< maximum ms before a span is exported, 1..600,000; default 5000 */
    uint32_t trace_queue_size; /**< bytes of queued spans per loop, a power of two, 64 KiB..1 GiB; default 1 MiB.
                                  Above it spans are dropped (counter trace_spans_dropped) */
    bool server_timing;        /**< add Server-Timing to responses: ms from the head of the request to the head of the
                                  response, in total, before the handler started, and since then. Default false */
} uvhttp_server_config_t;

UVHTTP_EXPORT UVHTTP_OWNER_THREAD void uvhttp_server_config_init(uvhttp_server_config_t *config, size_t struct_size);
/** Sets all fields to their defaults. */
#define uvhttp_server_config_default(config) uvhttp_server_config_init((config), sizeof(uvhttp_server_config_t))

/** Sets a field by name from text, as a configuration file or a command-line option does: ("keepalive_timeout", "60").
 * Returns 0, UVHTTP_E_CONFIG or UVHTTP_E_INVALID (NULL). On failure, `message` (`size` bytes) contains name, value and
 * permitted range in one line. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_server_config_set(uvhttp_server_config_t *config, const char *name,
                                                               const char *value, char *message, size_t size);

/** Sets the fields that a YAML file names; other fields keep their values. The file is applied completely or not at
 * all: after an error *config is unchanged. `message` (`size` bytes, 1024 suffice) then has a line "path:line:column:
 * problem" per problem, and the number of problems that did not fit. See docs/guide/configuration.md. Blocks: do not
 * call it on a loop's thread.
 *
 * Returns 0, UVHTTP_E_CONFIG, UVHTTP_E_IO (the file cannot be read), UVHTTP_E_NOMEM, UVHTTP_E_INVALID, or
 * UVHTTP_E_UNSUPPORTED (a build without BUILD_WITH_YAML; the message says so). */
UVHTTP_EXPORT UVHTTP_BLOCKING_THREAD int uvhttp_server_config_load(uvhttp_server_config_t *config, const char *path,
                                                                   char *message, size_t size);
/** Does what uvhttp_server_config_load does, for a file that the program shares with the server: the names in `own`
 * (terminated by NULL; NULL means none) are skipped at the top level, with all that they contain. */
UVHTTP_EXPORT UVHTTP_BLOCKING_THREAD int uvhttp_server_config_load_with(uvhttp_server_config_t *config,
                                                                        const char *path, const char *const *own,
                                                                        char *message, size_t size);
/** Sets fields from environment variables such as UVHTTP_KEEPALIVE_TIMEOUT=60. An empty variable counts as not set. A
 * variable that starts with UVHTTP_ and resembles a field's name is refused. Later calls override earlier ones: call it
 * after uvhttp_server_config_load, and before the command line is applied by uvhttp_server_config_set. Not while
 * another thread changes the environment. Returns 0, UVHTTP_E_CONFIG or UVHTTP_E_INVALID. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_server_config_env(uvhttp_server_config_t *config, char *message,
                                                               size_t size);
/** Calls `each` for every field, for --help or to print the configuration. Arguments: the name, the mapping that
 * contains it ("performance") or NULL, the value in *config, and the expected range ("0..604800 seconds"). The texts
 * are valid during the call. The value of a secret that is set is "***". *config must pass uvhttp_server_config_check.
 */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD void uvhttp_server_config_fields(
    const uvhttp_server_config_t *config,
    void (*each)(const char *name, const char *group, const char *value, const char *expected, void *user), void *user);
/** A field of a configuration as uvhttp_server_config_explain shows it. Later versions append members. */
typedef struct uvhttp_config_setting {
    const char *name;
    const char *group;             /**< the mapping of a file that contains it ("performance"), or NULL */
    const char *value;             /**< of a secret that is set: "***" */
    const char *initial;           /**< the default */
    const char *expected;          /**< the range: "0..604800 seconds" */
    const char *origin;            /**< "default", "server.yaml:12", "UVHTTP_KEEPALIVE_TIMEOUT", "option" or "code" */
    const char *enforced_by;       /**< what happens at this value, and which counter shows it */
    uvhttp_config_source_t source; /**< the kind of origin */
    bool live;                     /**< uvhttp_server_reload applies it; others need a restart */
} uvhttp_config_setting_t;

/** Calls `each` for every field with its value, where that comes from, and what enforces it. A value that the program
 * wrote to the structure itself comes from "code" if it is not the default. The texts are valid during the call.
 * *config must pass uvhttp_server_config_check. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD void
uvhttp_server_config_explain(const uvhttp_server_config_t *config,
                             void (*each)(const uvhttp_config_setting_t *setting, void *user), void *user);
/** Checks all fields. Result and message are those of uvhttp_server_config_set. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_server_config_check(const uvhttp_server_config_t *config, char *message,
                                                                 size_t size);

/* --- life cycle --- */

/** Creates a server. `config` NULL means defaults. Returns NULL when out of memory or when the configuration is wrong;
 * the reason is logged as an error. Functions that take a server accept that NULL: they do nothing, and return
 * UVHTTP_E_INVALID, NULL, false or 0. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_server_t *uvhttp_server_new(const uvhttp_server_config_t *config);

/** Listens on an address; may be called several times. Addresses: "127.0.0.1:8080", "[::1]:8080", "*:8080" or ":8080"
 * (IPv6 and IPv4), "localhost:8080", "unix:/path", "unix:@abstract", "fd:3" (inherited), "systemd" (the first
 * socket of its socket activation) or "systemd:name" (the one with that FileDescriptorName). With the suffix "
 * proxy_protocol" it expects the PROXY protocol (proxy.h). *port (may be NULL) receives the port; port 0 lets the
 * kernel choose. config.tcp_congestion_control applies. Routes are fixed after the first call.
 *
 * From a call that returns 0 on, the server owns the descriptor of "fd:3" and closes it when it stops, at the latest in
 * uvhttp_server_free. After an error it still belongs to the caller.
 *
 * Returns 0, UVHTTP_E_ADDRESS, UVHTTP_E_ADDRESS_IN_USE, UVHTTP_E_PERMISSION, UVHTTP_E_CONFIG (tcp_congestion_control),
 * UVHTTP_E_NO_DESCRIPTORS, UVHTTP_E_IO, UVHTTP_E_NOMEM, UVHTTP_E_INVALID (`address` is NULL), UVHTTP_E_STATE (after
 * run), UVHTTP_E_LIMIT (an attached server has 64 addresses, or the thread of config.admin cannot be started),
 * UVHTTP_E_UNSUPPORTED (config.admin in a build without it), or the first registration error (UVHTTP_E_ROUTE_*). The
 * log and uvhttp_server_error_text have the details. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_server_listen(uvhttp_server_t *server, const char *address,
                                                           uint16_t *port);

/** Runs the server until it has stopped and drained. Also listens on `address`, unless it is NULL. Starts the loops,
 * one of them on this thread. Prints version, engine with reason, and addresses in one line on stderr (as a line of
 * INFO if those are logged). The caller keeps the server and frees it with uvhttp_server_free. A server runs once; the
 * second call returns UVHTTP_E_STATE. Returns 0, a code of uvhttp_server_listen, UVHTTP_E_UNSUPPORTED (engine),
 * UVHTTP_E_NO_DESCRIPTORS or UVHTTP_E_LIMIT (a thread cannot be started, or fs.epoll.max_user_watches). */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_server_run(uvhttp_server_t *server, const char *address);

/** Makes what follows a dry run, to check a configuration: uvhttp_service_init, uvhttp_server_listen,
 * uvhttp_server_listen_tls and uvhttp_server_run return the errors that they would, with the same texts, but bind no
 * socket, create no file, change neither user, umask nor limits, and run returns at once. Left out are other processes
 * (an address in use, a locked PID file), sockets that are passed in ("fd:N", "systemd"), the rights of this one (ports
 * below 1024, files, another user), whether this machine has an address, and threads. Call it after uvhttp_server_new.
 * Returns 0, UVHTTP_E_INVALID (`server` is NULL) or UVHTTP_E_STATE (after one of these functions, or the server is
 * attached to a loop). */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_server_dry_run(uvhttp_server_t *server);

/** Serves inside a libuv loop of the application, without threads, instead of uvhttp_server_run. Call it before listen,
 * on the loop's thread. Sends and closes made in a uv_prepare callback registered before this server take effect in the
 * next loop iteration. Returns 0, UVHTTP_E_STATE, UVHTTP_E_UNSUPPORTED, UVHTTP_E_NO_DESCRIPTORS, UVHTTP_E_NOMEM,
 * UVHTTP_E_INVALID (NULL), UVHTTP_E_LIMIT (fs.epoll.max_user_watches) or UVHTTP_E_IO (libuv refused a handle). After an
 * error, or when the first listen fails, free the server and run the loop for one more iteration. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_server_attach(uvhttp_server_t *server, struct uv_loop_s *loop);

/** Starts to stop. uvhttp_server_ready is false from now on. After config.drain_grace_ms the server accepts no new
 * connections. An idle connection closes after config.drain_idle_ms without a request. Running and arriving requests
 * get a response with `Connection: close`. Requests that still run after config.drain_timeout are cut off and counted.
 * Then uvhttp_server_run returns; an attached server calls on_stopped. Returns 0. Idempotent. Any thread, but not a
 * signal handler (it locks a mutex). */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_server_stop(uvhttp_server_t *server);

/** What a server is doing. Values are appended in later releases. */
typedef enum uvhttp_server_state {
    UVHTTP_SERVER_STARTING, /**< it accepts no connections yet: clients wait in the backlog */
    UVHTTP_SERVER_READY,    /**< it serves. A request is never handled before this */
    UVHTTP_SERVER_GRACE,    /**< it was stopped, and serves as before until drain_grace_ms is over */
    UVHTTP_SERVER_DRAINING, /**< it accepts no new connections and completes requests */
    UVHTTP_SERVER_STOPPED
} uvhttp_server_state_t;

/** Returns what the server is doing; STOPPED for NULL. Any thread, also in a handler. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_server_state_t uvhttp_server_state(const uvhttp_server_t *server);
/** Returns whether clients should be sent to this server: its state is READY. It is false from the moment of a stop,
 * before anything else changes. For a readiness probe. Any thread, also in a handler. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD bool uvhttp_server_ready(const uvhttp_server_t *server);

/** Called at a point in the life of a server. */
typedef void (*uvhttp_server_cb)(uvhttp_server_t *server, void *user);

/** Sets the function that is called once, when the server is ready: everything that can fail at the start is done, the
 * state is READY, the service manager has been notified, and no connection has been accepted. Clients that connect wait
 * in the backlog until it returns, so it must not block. A call of uvhttp_server_run calls it on its own thread, where
 * uvhttp_loop_uv is the first loop. In an attached server the first successful listen calls it. It is not called if the
 * start fails or the server was stopped before. It may call uvhttp_server_stop. NULL (default): none. Call before run
 * or attach. Returns 0, UVHTTP_E_STATE (too late) or UVHTTP_E_INVALID (`server` is NULL). */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_server_on_ready(uvhttp_server_t *server, uvhttp_server_cb on_ready,
                                                             void *user);
/** Sets the function that an attached server calls on its loop when the drain is over: all connections have closed, and
 * handlers on worker threads and in coroutines have returned. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD void uvhttp_server_on_stopped(uvhttp_server_t *server, uvhttp_server_cb on_stopped,
                                                                void *user);

/** Applies changed files and a changed configuration while requests run:
 * - TLS listeners read certificates, keys, authorities, revocation lists and OCSP responses again. A uvhttp_tls_t of
 * uvhttp_tls_from_config also gets the tls_* fields of `config`. Open connections keep their settings.
 * - log_level, performance_mode and log_format of `config` take effect.
 * - middleware is notified (uvhttp_middleware_t.reload): access logs open their files again.
 * Other fields that differ need a restart; a warning names them. `config` NULL: files only.
 *
 * It succeeds completely or changes nothing. After an error, uvhttp_server_error_text, the log, and `message` (`size`
 * bytes, may be NULL) describe the problem. On success an INFO line lists what was applied. Returns 0, UVHTTP_E_CONFIG,
 * UVHTTP_E_TLS_CERTIFICATE, UVHTTP_E_NOMEM or UVHTTP_E_INVALID (`server` is NULL). Blocks on files: any thread except a
 * loop's, one call at a time, after listen and before free. */
UVHTTP_EXPORT UVHTTP_BLOCKING_THREAD int
uvhttp_server_reload(uvhttp_server_t *server, const uvhttp_server_config_t *config, char *message, size_t size);

/** Sets the function that SIGHUP calls, for uvhttp_server_run with install_signal_handlers. It runs on its own thread
 * and may block. It reads the configuration as the program does, then calls uvhttp_server_reload. Signals during the
 * call cause one more call. uvhttp_server_run waits for it before returning. NULL (default): the library does not touch
 * SIGHUP. Call before run. Returns 0, UVHTTP_E_STATE or UVHTTP_E_INVALID (`server` is NULL). */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_server_on_reload(uvhttp_server_t *server, uvhttp_server_cb on_reload,
                                                              void *user);

/** Replaces a response that the server generates itself. `status` and a text/plain body are already set in `res`. The
 * function may set another response (uvhttp_response_json ...), change header fields and add hooks; if it does nothing,
 * the prepared response is sent.
 *
 * `code` is the reason: UVHTTP_E_NOT_FOUND (404), UVHTTP_E_HTTP_METHOD_NOT_ALLOWED (405), UVHTTP_E_HTTP_METHOD_UNKNOWN
 * (501), UVHTTP_E_NO_RESPONSE (500: the handler neither responded nor deferred), a code of <uvhttp/error.h> with a
 * status (400, 408, 413, 414, 431, 503, 505 ...), or a code of static files, WebSocket routes or forms. `req` contains
 * what is known. For a malformed head these are method and target if the request line has them, else "", and no fields.
 */
typedef void (*uvhttp_error_cb)(uvhttp_request_t *req, uvhttp_response_t *res, int status, int code, void *user);

/** Sets the function for all generated responses. Call it before the first listen or run. NULL: they are sent
 * unchanged. The function is called once per response on the loop's thread, after the middleware's on_refused and
 * before the on_finish hooks. It must not block. It cannot defer (uvhttp_response_defer returns NULL), stream or
 * upgrade (UVHTTP_E_STATE). A connection that was about to close is closed anyway, and HEAD gets no body. `user` must
 * live as long as the server. Returns 0, UVHTTP_E_INVALID (`server` is NULL) or UVHTTP_E_STATE (too late). */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_server_on_error(uvhttp_server_t *server, uvhttp_error_cb on_error,
                                                             void *user);

/** Frees a server: after uvhttp_server_run has returned, in or after on_stopped of an attached server, or if neither
 * was started. The memory of an attached server is freed when its handles have closed; run its loop for one more
 * iteration. NULL is allowed. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD void uvhttp_server_free(uvhttp_server_t *server);

/** Returns the last error of registration, listen or run in one line, or "". Valid until the next call. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD const char *uvhttp_server_error_text(const uvhttp_server_t *server);
/** Returns the code of that error: 0 if there was none, UVHTTP_E_INVALID if `server` is NULL. Only the thread that
 * registers routes or runs the server. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_server_error(const uvhttp_server_t *server);

/** Returns the name of the engine, and the reason for its choice in *reason. NULL before run or attach. *reason is
 * valid until the server is freed. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD const char *uvhttp_server_engine(const uvhttp_server_t *server, const char **reason);

/** Returns the libuv loop of the calling loop thread, for the application's own uv handles. NULL on other threads.
 * Close those handles before the server has stopped. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD struct uv_loop_s *uvhttp_loop_uv(void);

/* --- routes ---
 *
 * Register routes before the first listen or run, on one thread at a time. Patterns: route.h. The functions return a
 * handle of the route. NULL means that the route was refused: UVHTTP_E_ROUTE_PATTERN, UVHTTP_E_ROUTE_CONFLICT,
 * UVHTTP_E_INVALID (server, group, pattern or handler is NULL, or there is no such method or mode),
 * UVHTTP_E_UNSUPPORTED (this build does not have the mode), UVHTTP_E_STATE (after listen) or UVHTTP_E_NOMEM. Handles
 * need not be checked here: the server keeps the first error (uvhttp_server_error, uvhttp_server_error_text), listen
 * and run return it, and functions that take a handle accept NULL. `user` must live as long as the server. */

UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_get(uvhttp_server_t *server, const char *pattern,
                                                             uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_head(uvhttp_server_t *server, const char *pattern,
                                                              uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_post(uvhttp_server_t *server, const char *pattern,
                                                              uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_put(uvhttp_server_t *server, const char *pattern,
                                                             uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_delete(uvhttp_server_t *server, const char *pattern,
                                                                uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_patch(uvhttp_server_t *server, const char *pattern,
                                                               uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_options(uvhttp_server_t *server, const char *pattern,
                                                                 uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_any(uvhttp_server_t *server, const char *pattern,
                                                             uvhttp_handler_cb handler, void *user);
/** Registers a route for any method, with an execution mode (route.h). The functions above use UVHTTP_EXEC_DEFAULT; the
 * field `exec` of uvhttp_route_options changes the mode of any route. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_route(uvhttp_server_t *server, uvhttp_method_t method,
                                                               const char *pattern, uvhttp_handler_cb handler,
                                                               void *user, uvhttp_exec_t exec);

/** Creates a group of routes. The patterns of its routes follow `prefix` ("/api", copied; NULL or "" means none), and
 * its middleware and defaults apply to them. Two groups may have the same prefix. The server owns the group, which is
 * valid until uvhttp_server_free. Returns NULL only if the server is NULL: after an error, which listen reports, the
 * group refuses everything. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_group_t *uvhttp_group(uvhttp_server_t *server, const char *prefix);
/** Creates a group in a group. It follows the prefix and the middleware of the outer group, and inherits its defaults
 * where it has none of its own. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_group_t *uvhttp_group_group(uvhttp_group_t *group, const char *prefix);

/** Register routes of a group, as those of a server. `pattern` follows the prefix; "" is the prefix itself. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_group_get(uvhttp_group_t *group, const char *pattern,
                                                                   uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_group_head(uvhttp_group_t *group, const char *pattern,
                                                                    uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_group_post(uvhttp_group_t *group, const char *pattern,
                                                                    uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_group_put(uvhttp_group_t *group, const char *pattern,
                                                                   uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_group_delete(uvhttp_group_t *group, const char *pattern,
                                                                      uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_group_patch(uvhttp_group_t *group, const char *pattern,
                                                                     uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_group_options(uvhttp_group_t *group, const char *pattern,
                                                                       uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_group_any(uvhttp_group_t *group, const char *pattern,
                                                                   uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_group_route(uvhttp_group_t *group, uvhttp_method_t method,
                                                                     const char *pattern, uvhttp_handler_cb handler,
                                                                     void *user, uvhttp_exec_t exec);

UVHTTP_EXPORT UVHTTP_SETUP_THREAD int
uvhttp_group_defaults_sized(uvhttp_group_t *group, const uvhttp_route_options_t *defaults, size_t defaults_size);
/** Sets the options that the routes of a group, and of the groups in it, inherit where their own are 0. They are
 * copied; a second call replaces them. NULL means none. They apply to routes registered before and after the call, but
 * not to static files and WebSocket routes. Returns 0, UVHTTP_E_STATE (after listen) or UVHTTP_E_INVALID (`group` is
 * NULL or was refused, or a value is out of range). On failure listen also fails. Listen fails with
 * UVHTTP_E_UNSUPPORTED if this build does not have the mode in `exec`. */
static inline int uvhttp_group_defaults(uvhttp_group_t *group, const uvhttp_route_options_t *defaults) {
    return uvhttp_group_defaults_sized(group, defaults, sizeof *defaults);
}

/** Adds middleware to the server, also for requests that match no route, or to a group. It runs in the order of the
 * calls, the outer group before the inner one. Returns 0, UVHTTP_E_INVALID (server or group is NULL, the group was
 * refused, or `run` is NULL), UVHTTP_E_STATE (after listen), UVHTTP_E_UNSUPPORTED (`reserved` is set) or
 * UVHTTP_E_NOMEM. On failure `destroy` has been called, and listen also fails. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_use(uvhttp_server_t *server, uvhttp_middleware_t middleware);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_group_use(uvhttp_group_t *group, uvhttp_middleware_t middleware);
/** Adds middleware to one route, after that of its groups. Returns as uvhttp_use does. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_route_use(uvhttp_route_t *route, uvhttp_middleware_t middleware);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int
uvhttp_route_options_sized(uvhttp_route_t *route, const uvhttp_route_options_t *options, size_t options_size);
/** Sets options of one route. They are copied; a second call replaces them. NULL means that the route has none of its
 * own. Returns 0, UVHTTP_E_STATE (after listen), UVHTTP_E_INVALID (`route` is NULL, or a value is out of range) or
 * UVHTTP_E_UNSUPPORTED (`exec`: this build does not have the mode). On failure listen also fails and reports the
 * reason. */
static inline int uvhttp_route_options(uvhttp_route_t *route, const uvhttp_route_options_t *options) {
    return uvhttp_route_options_sized(route, options, sizeof *options);
}

/* --- upgrades --- */

/** Upgrades the connection: sends 101, then delivers the connection's events to *handlers (static storage) with `user`,
 * as a uvhttp_tcp_t. on_open is called first, when the response is queued. The request must have Upgrade and
 * "Connection: upgrade", and no body (RFC 9110 section 7.8). Header fields may be added before. Returns 0,
 * UVHTTP_E_INVALID (an argument is NULL, or there is no on_data), UVHTTP_E_STATE (another request, or begun, sent or
 * deferred before), UVHTTP_E_UNSUPPORTED (`reserved` is set), UVHTTP_E_LIMIT or UVHTTP_E_NOMEM. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_upgrade(uvhttp_response_t *res, const char *protocol,
                                                              const uvhttp_tcp_handlers_t *handlers, void *user);

/* --- metrics --- */

typedef struct uvhttp_metrics {
    uint64_t requests, connections_accepted, connections_active, bytes_received, bytes_sent;
    uint64_t responses_1xx, responses_2xx, responses_3xx, responses_4xx, responses_5xx;
    uint64_t response_time_count; /**< responses measured: from the loop iteration that received the complete head until
                                     the response is queued */
    double response_time_mean_ns;
    uint64_t response_time_p50_ns, response_time_p90_ns, response_time_p99_ns, response_time_p999_ns,
        response_time_max_ns;
    uint64_t work_queue_time_count; /**< jobs and handlers run by worker threads, measured from submission to start */
    double work_queue_time_mean_ns;
    uint64_t work_queue_time_p50_ns, work_queue_time_p99_ns, work_queue_time_max_ns;
} uvhttp_metrics_t;

UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_server_metrics_sized(const uvhttp_server_t *server,
                                                                 uvhttp_metrics_t *metrics, size_t metrics_size);
/** Takes a snapshot over all loops; all 0 if `server` is NULL. Any thread. */
static inline void uvhttp_server_metrics(const uvhttp_server_t *server, uvhttp_metrics_t *metrics) {
    uvhttp_server_metrics_sized(server, metrics, sizeof *metrics);
}

/** Calls `each` once per counter, never if `server` is NULL. Refusals are named "rejected_<error name in lower case>".
 * Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD void
uvhttp_server_counters(const uvhttp_server_t *server,
                       void (*each)(const char *name, const char *help, uint64_t value, void *user), void *user);
/** Returns a counter by name, or 0 if there is no such counter or server. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD uint64_t uvhttp_server_counter(const uvhttp_server_t *server, const char *name);

/** Returns the version, such as "0.2.0". Static storage. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD const char *uvhttp_version(void);
/** Returns what this binary was built from and with, as lines `key: value`: git revision ("unknown" without git),
 * whether files differed from it ("dirty"), a hash of the sources, compiler, flags, options and sanitizers. Static
 * storage. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD const char *uvhttp_build_info(void);

UVHTTP_END_DECLS

#endif
