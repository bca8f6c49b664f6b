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

/** What of the log and the statistics a deployment wants. */
typedef struct uvhttp_performance_config {
    bool performance_mode;        /**< true: log_level is at least WARN. Default false */
    uvhttp_log_level_t log_level; /**< threshold to set at start; default: what is in force already */
    bool enable_statistics;       /**< response-time histogram. Default true. Counters are always kept */
} uvhttp_performance_config_t;

typedef enum uvhttp_engine {
    UVHTTP_ENGINE_AUTO,  /**< io_uring where it works, else libuv; the choice and its reason are reported */
    UVHTTP_ENGINE_URING, /**< io_uring, or fail */
    UVHTTP_ENGINE_EPOLL
} uvhttp_engine_t;

#define UVHTTP_CONFIG_TEXT_SIZE 1024 /**< bytes of a text in the configuration, its NUL included */

/** Set all fields by uvhttp_server_config_default, then change some. Sizes are bytes, times seconds unless the name
 * says ms, 0 switches a time limit off. A value out of range is refused by uvhttp_server_new with a message that names
 * it. */
typedef struct uvhttp_server_config {
    uint32_t struct_size;   /**< of the header that the program was compiled with; set by config_default */
    uint32_t io_threads;    /**< loop threads, 0..1024; 0: one per CPU (default) */
    uvhttp_engine_t engine; /**< default AUTO; the environment variable UVHTTP_ENGINE wins over AUTO */
    uint32_t
        max_connections; /**< at once, all loops together, 1..10,000,000; default 10000; more wait in the backlog */
    uint32_t backlog;    /**< of listen(2), 1..65535; default 4096 */
    uint32_t read_buffer_size;  /**< one receive, 1024..1 MiB; default 16384 */
    uint32_t read_buffer_count; /**< receive buffers a loop (io_uring), power of two 8..32768; default 64 */
    uint32_t write_buffer_size; /**< output of one connection that waits for the client before pipelined requests wait
                                     too, 1024..64 MiB; default 16384 */
    uint64_t write_queue_max;   /**< bound for uvhttp_response_write, 4096..; default 1 MiB */

    uint32_t connection_timeout; /**< from the first byte of a request (or the accept) to its whole head; default 30 */
    uint32_t body_timeout;       /**< in which no byte of a request body comes, begun again by each that does; 0: no
                                      limit; default 300 */
    uint32_t keepalive_timeout;  /**< idle between requests; default 60 */
    uint32_t write_timeout;      /**< in which the client takes (its system acknowledges) no byte of what waits for it,
                                      begun again by each that it takes; 0: no limit; default 300 */
    uint32_t min_receive_rate;   /**< bytes per second that a client has to send of a body, 0..2^30; else 408. What it
                                    sends   ahead counts for rate_grace seconds; 0: no limit; default 240 */
    uint32_t min_send_rate;      /**< bytes per second that it has to acknowledge of what waits for it, also of what the
                                      kernel holds already, in the same way; else it is reset; default 240 */
    uint32_t rate_grace;    /**< seconds, at the begin and after any number of bytes, that a client may be silent for
                                 before the rates end its connection; default 5 */
    uint32_t drain_timeout; /**< from stop to the cutting off of what still runs; default 30 */

    uint32_t request_line_max;       /**< 64..1 MiB; default 8192; more: 414 */
    uint32_t headers_size_max;       /**< 64..1 MiB; default 32768; more: 431 */
    uint32_t header_count_max;       /**< 1..1000; default 100; more: 431 */
    uint64_t body_size_max;          /**< 0..; default 1 MiB; more: 413 */
    uint32_t chunk_extension_max;    /**< all extensions of a body; default 4096 */
    uint32_t trailer_size_max;       /**< default 8192 */
    uint64_t request_memory_max;     /**< headers, parameters and copied bodies of one response; default 16 MiB */
    uint32_t keepalive_requests_max; /**< requests on one connection; 0: no limit (default) */
    uint32_t iteration_requests_max; /**< pipelined requests of one connection in one turn of the loop, 1..; default
                                     128. One of HTTP/1 counts once more for each 256 bytes of its head */
    bool half_close; /**< a client that sends FIN still waits for a deferred answer; default false: it has gone, unless
                        a static file is being looked up for it */
    bool install_signal_handlers; /**< uvhttp_server_run drains at SIGINT and SIGTERM; default true */
    bool quiet;                   /**< no start-up and shut-down lines on stderr; default false */
    uvhttp_performance_config_t performance;

    uint32_t worker_threads;      /**< threads for UVHTTP_EXEC_WORKER and uvhttp_work at most, 1..16384; default 512.
                                       They are made when they are needed: one per CPU at once, more while those are
                                       blocked */
    uint32_t worker_threads_min;  /**< of them, that are made at the start and stay, 0..worker_threads; default 0 */
    uint32_t max_backlog;         /**< jobs that wait for a thread, 1..10,000,000; default 10000; more: 503 with
                                       Retry-After */
    uint32_t worker_idle_timeout; /**< seconds without a job after which a thread ends; 0: never; default 30 */
    uint32_t worker_warn_ms;      /**< ms that a job may run before it is counted (work_slow) and logged, 0..86,400,000;
                                       0: off; default 10000 */
    uint32_t handler_warn_ms;     /**< ms that a handler may keep its loop from others before that is counted
                                       (handler_blocked) and logged, 0..86,400,000; 0: off; default 100 */
    uint32_t coroutine_stack_size; /**< bytes that a coroutine may use (coro.h), 16 KiB..64 MiB, rounded up to pages;
                                      only those that are touched take memory; default 64 KiB */
    uint32_t coroutines_max; /**< at once, all loops together, 1..10,000,000; beyond it coroutine routes answer 503;
                                more than 32,000 may need a higher vm.max_map_count; default 30000 */
    uint32_t drain_idle_ms;  /**< ms after uvhttp_server_stop (or after a response) in which a connection on which
                                nothing  is asked is still served: a request that comes is answered with `Connection:
                                close`,  so that none is lost that its client sent before it could know. 0..86,400,000;
                                default 1000 */

    /* TLS, for uvhttp_tls_from_config: the fields of uvhttp_tls_options_t (tls.h). Texts are in the structure, so that
     * it can be copied; they end with NUL, and "" is none. */
    char tls_certificate[UVHTTP_CONFIG_TEXT_SIZE]; /**< PEM files, a certificate with its chain each, commas between */
    char tls_key[UVHTTP_CONFIG_TEXT_SIZE];         /**< PEM files: the key of each certificate, in the same order */
    char tls_ocsp[UVHTTP_CONFIG_TEXT_SIZE];        /**< DER files: OCSP responses to staple, in the same order; a place
                                                         may be empty */
    char tls_client_ca[UVHTTP_CONFIG_TEXT_SIZE];   /**< PEM file: authorities of clients' certificates */
    char tls_client_crl[UVHTTP_CONFIG_TEXT_SIZE];  /**< PEM file: revocation lists of those authorities */
    uvhttp_tls_clients_t tls_clients;              /**< what is asked of clients: any (default), verify or require */
    uvhttp_tls_version_t tls_min_version;          /**< default TLS 1.2 */
    uvhttp_tls_version_t tls_max_version;          /**< default TLS 1.3 */
    char tls_alpn[UVHTTP_CONFIG_TEXT_SIZE];        /**< protocols by preference, commas between, or "none"; "" (the
                                                         default): h2 unless http2 is off, then http/1.1 */
    uint32_t tls_handshake_timeout;                /**< seconds from the accept to the end of the handshake, 1..3600;
                                                         default 10 */
    bool tls_tickets;                              /**< false: sessions are not resumed; default true */
    uint32_t tls_ticket_period; /**< seconds that a key for tickets is used for new ones, 1..604800; default 43200 */
    bool tls_kernel;            /**< true: kernel TLS where it can be had (tls.h); default false */

    uint32_t worker_queue_timeout_ms; /**< ms that a handler, or the write of a spooled body, may wait for a thread of
                                         the pool before the client gets 503 with Retry-After, 0..86,400,000; 0: no
                                         limit; default 10000. Jobs of uvhttp_work have no such limit */
    uint32_t worker_live_max; /**< of worker_threads, those that handlers with live_body may hold at once, 0..16384;
                                   more: 503 with Retry-After. 0 (default): half of them, at least one */
    uint32_t spool_memory;   /**< bytes of a spooled body (route.h, stream_body) that stay in memory, 4096..64 MiB; more
                                  go to a temporary file in spool_directory; default 65536 */
    uint64_t spool_size_max; /**< bytes of all temporary files together; a body that announces more: 413, one that
                                  finds no room: 503 with Retry-After; default 16 GiB */
    uint32_t proxy_fields;   /**< what trusted proxies are believed (proxy.h): UVHTTP_PROXY_FOR, _PROTO and _HOST,
                                combined; as text "for,proto,host". Holds for uvhttp_server_trust_proxies when its
                                options name no fields; default UVHTTP_PROXY_FOR */
    uint32_t connections_per_address_max; /**< of max_connections, of one client address, all loops together: an IPv4
                                               address or the /64 of an IPv6 one; 0..10,000,000; 0: no limit (default).
                                               More are reset before anything is read. Unix sockets, and those who are
                                               trusted as proxies (proxy.h), have no such limit; with the PROXY protocol
                                               it is that of the client whom the proxy names */
    uint32_t descriptors_reserved; /**< descriptors of the process that connections leave to files, upstreams and the
                                        program, 0..1,000,000; default 512; at most a quarter of RLIMIT_NOFILE is
                                        reserved where that is too low for all */
    bool raise_descriptor_limit;   /**< uvhttp_server_run raises the soft limit RLIMIT_NOFILE of the process to what
                                        max_connections and descriptors_reserved need, as far as the hard limit allows;
                                        default true. A server that is attached to a loop never does */
    char spool_directory[UVHTTP_CONFIG_TEXT_SIZE]; /**< path of the directory of spooled bodies' temporary files, at
                                        most 1023 bytes. The files have no name there and are gone with the process. ""
                                        (the default): that of the environment variable TMPDIR, else /var/tmp. On tmpfs
                                        the files take memory. A directory that cannot be written: 500 for bodies above
                                        spool_memory */
    char tcp_congestion_control[UVHTTP_CONFIG_TEXT_SIZE]; /**< TCP's congestion control on connections of the listeners:
                                        "" (the default): "reno" on a loopback address, where there is nothing to pace,
                                        else the system's, and that of an inherited socket; "system": never changed; or
                                        a name such as "reno", for inherited sockets, too. A name that the kernel does
                                        not know or allow: listen returns UVHTTP_E_CONFIG */

    /* HTTP/2 (docs/http2.md). What both protocols have, such as timeouts and rates, is set above. */
    bool http2; /**< HTTP/2 beside HTTP/1 on every address: by ALPN over TLS, by its preface in clear; default true */
    uint32_t http2_concurrent_streams_max; /**< requests of one connection that are answered at once, 1..32768; more are
                                                refused and may be repeated by the client; default 100 */
    uint32_t http2_header_list_size_max;   /**< bytes of the fields of a request, names, values and 32 a field, 1024..1
                                                MiB; more: 431; default 32768 */
    uint32_t http2_table_size_max;         /**< bytes of the table that a client's encoder may use, 0..4096; default
                                                4096 */
    uint32_t http2_stream_window;          /**< bytes of one request's body that a client may send ahead of their use,
                                                16384..256 KiB, at most a quarter of http2_connection_window; default
                                                256 KiB */
    uint32_t http2_connection_window;      /**< the same of all requests of a connection, 65535..1 MiB; default 1 MiB */
    uint64_t http2_connection_memory_max;  /**< bytes that one connection may make the server keep: heads, bodies,
                                              tables,  control frames, 64 KiB..; beyond it requests are refused, then the
                                                connection is; default 1 MiB */
    uint32_t http2_resets_max;             /**< requests of one connection that were reset after they had begun, whoever
                                                reset them, beyond those that were answered, 1..1,000,000; more end the
                                                connection; default 200 */
} uvhttp_server_config_t;

UVHTTP_EXPORT void uvhttp_server_config_init(uvhttp_server_config_t *config, size_t struct_size);
/** Fills in the defaults. */
#define uvhttp_server_config_default(config) uvhttp_server_config_init((config), sizeof(uvhttp_server_config_t))

/** Sets a field by its name from text, as a configuration file or an option would ("keepalive_timeout", "60"). Returns
 * 0 or UVHTTP_E_CONFIG; then `message` (size bytes) says name, value and allowed range in one line. */
UVHTTP_EXPORT int uvhttp_server_config_set(uvhttp_server_config_t *config, const char *name, const char *value,
                                           char *message, size_t size);

/** Sets the fields that a YAML file names; the others stay. All of the file or nothing is taken: after an error *config
 * is unchanged, and `message` (size bytes) has a line "path:line:column: what is wrong" for each problem as long as
 * there is room (1024 bytes are plenty), and how many more there are. Blocks; not on a loop's thread. docs:
 * configuration.md. Returns 0, UVHTTP_E_CONFIG, UVHTTP_E_IO (the file cannot be read), UVHTTP_E_NOMEM,
 * UVHTTP_E_INVALID, or UVHTTP_E_UNSUPPORTED (a build without BUILD_WITH_YAML; the message says so). */
UVHTTP_EXPORT int uvhttp_server_config_load(uvhttp_server_config_t *config, const char *path, char *message,
                                            size_t size);
/** The same from the environment: UVHTTP_KEEPALIVE_TIMEOUT=60. A variable that is empty counts as not set; one that
 * begins with UVHTTP_ and is almost the name of a field is refused. Call it after load and before the options of the
 * command line (uvhttp_server_config_set): the later wins. Not while another thread changes the environment. Returns 0,
 * UVHTTP_E_CONFIG or UVHTTP_E_INVALID. */
UVHTTP_EXPORT int uvhttp_server_config_env(uvhttp_server_config_t *config, char *message, size_t size);
/** Calls `each` for every field, for a program's --help or to print what is in force: its name, the mapping that it
 * stands in ("performance") or NULL, its value in *config, and what is expected ("0..604800 seconds"). The texts are
 * valid during the call. *config must be right, as uvhttp_server_config_check says. */
UVHTTP_EXPORT void uvhttp_server_config_fields(const uvhttp_server_config_t *config,
                                               void (*each)(const char *name, const char *group, const char *value,
                                                            const char *expected, void *user),
                                               void *user);
/** Checks all fields; returns and says the same as uvhttp_server_config_set. */
UVHTTP_EXPORT int uvhttp_server_config_check(const uvhttp_server_config_t *config, char *message, size_t size);

/* --- life --- */

/** config NULL: defaults. NULL when out of memory or the configuration is wrong (then the reason is logged as an
 * error). Registration, listen, run, stop and free may be given that NULL: they return UVHTTP_E_INVALID. */
UVHTTP_EXPORT uvhttp_server_t *uvhttp_server_new(const uvhttp_server_config_t *config);

/** Listens on an address: "127.0.0.1:8080", "[::1]:8080", "*:8080" or ":8080" (IPv6 and IPv4), "localhost:8080",
 * "unix:/path", "unix:@abstract", "fd:3" (inherited) or "systemd"; " proxy_protocol" behind it: proxy.h. May be called
 * several times. *port (may be NULL) gets the port, chosen by the kernel for port 0. TCP's congestion control is that
 * of config.tcp_congestion_control: by default "reno" on a loopback address, else the system's. Routes are complete
 * from the first listen on. Returns 0, UVHTTP_E_ADDRESS, UVHTTP_E_ADDRESS_IN_USE, UVHTTP_E_PERMISSION, UVHTTP_E_CONFIG
 * (tcp_congestion_control), UVHTTP_E_IO, UVHTTP_E_NOMEM, UVHTTP_E_STATE after run, or the first registration error
 * (UVHTTP_E_ROUTE_*); uvhttp_server_error_text says more, and it is logged. */
UVHTTP_EXPORT int uvhttp_server_listen(uvhttp_server_t *server, const char *address, uint16_t *port);

/** Listens on `address` too (NULL: only on what listen was called for), starts the loops (one of them on this thread)
 * and returns when the server has stopped and drained. The server stays the caller's: uvhttp_server_free. A server runs
 * once: UVHTTP_E_STATE the second time. Returns 0 or a code of listen, UVHTTP_E_UNSUPPORTED (engine),
 * UVHTTP_E_NO_DESCRIPTORS. One line on stderr at start: version, engine and why, addresses. */
UVHTTP_EXPORT int uvhttp_server_run(uvhttp_server_t *server, const char *address);

/** Instead of run: serves inside a libuv loop that the application runs, without threads. Before listen, on the loop's
 * thread. What a uv_prepare callback that was started before sends or closes has to wait for the loop's next iteration,
 * whatever brings that about. Returns 0, UVHTTP_E_STATE, UVHTTP_E_UNSUPPORTED, UVHTTP_E_NOMEM. */
UVHTTP_EXPORT int uvhttp_server_attach(uvhttp_server_t *server, struct uv_loop_s *loop);

/** Begins to stop: no new connections, idle ones close when nothing has come for config.drain_idle_ms, running requests
 * and those that still come are answered with `Connection: close`, what runs after config.drain_timeout is cut off and
 * counted. Any thread, but not a signal handler (it takes a lock); idempotent. run
 * returns at the end; an attached server calls on_stopped. Returns 0. */
UVHTTP_EXPORT int uvhttp_server_stop(uvhttp_server_t *server);
/** For an attached server: called on its loop when the drain is over. */
UVHTTP_EXPORT void uvhttp_server_on_stopped(uvhttp_server_t *server,
                                            void (*on_stopped)(uvhttp_server_t *server, void *user), void *user);

/** Takes a configuration and files that have changed, while requests run:
 * - what listens with TLS reads its certificates, keys, authorities, revocation lists and OCSP responses again, and one
 *   that was made by uvhttp_tls_from_config takes the tls_* fields of `config`; connections keep what they have;
 * - log_level and performance_mode of `config` come into force;
 * - middleware is notified (uvhttp_middleware_t.reload): access logs open their files again.
 * Fields of other kinds that differ from those that the server was made with need a restart: a warning names them.
 * config NULL: the files alone. All or nothing: after an error nothing has changed, and uvhttp_server_error_text, the
 * log, and `message` (size bytes, may be NULL) say what is wrong and where. A line at level INFO says what was taken.
 * Blocks (it reads files): any thread but a loop's, one call at a time, after listen and before free. Returns 0,
 * UVHTTP_E_CONFIG, UVHTTP_E_TLS_CERTIFICATE, UVHTTP_E_NOMEM or UVHTTP_E_INVALID (server NULL). */
UVHTTP_EXPORT int uvhttp_server_reload(uvhttp_server_t *server, const uvhttp_server_config_t *config, char *message,
                                       size_t size);

/** For uvhttp_server_run with install_signal_handlers: SIGHUP calls on_reload, which may block, on a thread that is
 * made for it. It reads the configuration as the program does, and calls uvhttp_server_reload. Signals that come
 * meanwhile call it once more; run waits for it before it returns. Without on_reload (NULL, the default) the library
 * does not touch SIGHUP. Before run. Returns 0, UVHTTP_E_STATE or UVHTTP_E_INVALID (server NULL). */
UVHTTP_EXPORT int uvhttp_server_on_reload(uvhttp_server_t *server,
                                          void (*on_reload)(uvhttp_server_t *server, void *user), void *user);

/** Replaces a response that the server makes by itself: its `status` and text (text/plain) are recorded in `res`, and
 * the function may put another one in its place (uvhttp_response_json, ...), change headers and add hooks; if it does
 * nothing, that one leaves. `code` is the UVHTTP_E_* code of the reason: UVHTTP_E_NOT_FOUND (404),
 * UVHTTP_E_HTTP_METHOD_NOT_ALLOWED (405), UVHTTP_E_HTTP_METHOD_UNKNOWN (501), UVHTTP_E_NO_RESPONSE (500: the handler
 * has neither responded nor deferred), the codes of <uvhttp/error.h> that have a status (400, 408, 413, 414, 431, 503,
 * 505, ...), and those of the static files, WebSocket routes and forms. `req` shows what is known: of a head that could
 * not be read the method and the target if its request line has them, else "", and no fields. */
typedef void (*uvhttp_error_cb)(uvhttp_request_t *req, uvhttp_response_t *res, int status, int code, void *user);

/** Sets the one function for all such responses; before the first listen or run. NULL: they leave as they are. It is
 * called once per response, on the loop's thread, after the middleware's on_refused and before the on_finish hooks, and
 * must not block. It cannot defer (uvhttp_response_defer returns NULL), begin an answer in pieces or upgrade
 * (UVHTTP_E_STATE). A connection that was to be closed is closed all the same, and HEAD gets no body. `user` must live
 * as long as the server. Returns 0, UVHTTP_E_INVALID (server NULL) or UVHTTP_E_STATE (too late). */
UVHTTP_EXPORT int uvhttp_server_on_error(uvhttp_server_t *server, uvhttp_error_cb on_error, void *user);

/** After run has returned, or in or after on_stopped of an attached server (the memory goes when its handles have
 * closed: let the loop turn once more), or if neither was started. NULL is allowed. */
UVHTTP_EXPORT void uvhttp_server_free(uvhttp_server_t *server);

/** What went wrong last in registration, listen or run, one line; "" if nothing. Valid until the next call. */
UVHTTP_EXPORT const char *uvhttp_server_error_text(const uvhttp_server_t *server);
/** The code of the same: 0 if nothing went wrong, UVHTTP_E_INVALID if server is NULL. The thread that registers, or
 * runs the server. */
UVHTTP_EXPORT int uvhttp_server_error(const uvhttp_server_t *server);

/** "io_uring" or "epoll" and why; NULL before run or attach. Any thread. */
UVHTTP_EXPORT const char *uvhttp_server_engine(const uvhttp_server_t *server, const char **reason);

/** The libuv loop of the loop thread that the caller runs on, for uv handles of the application's own; NULL on other
 * threads. Handles must be closed before the server has stopped. */
UVHTTP_EXPORT struct uv_loop_s *uvhttp_loop_uv(void);

/* --- routes --- Before the first listen or run, one thread at a time. Patterns: see route.h.
 *
 * Registration returns a handle of the route, or NULL when it was refused: UVHTTP_E_ROUTE_PATTERN,
 * UVHTTP_E_ROUTE_CONFLICT, UVHTTP_E_INVALID (server, group, pattern or handler is NULL, or the method or mode is none),
 * UVHTTP_E_UNSUPPORTED (this build has no such mode), UVHTTP_E_STATE (after listen) or UVHTTP_E_NOMEM. The handle need
 * not be checked: the server keeps the first refusal, uvhttp_server_listen and uvhttp_server_run return its code, and
 * uvhttp_server_error_text says which route it was and why. `user` must live as long as the server. */

UVHTTP_EXPORT uvhttp_route_t *uvhttp_get(uvhttp_server_t *server, const char *pattern, uvhttp_handler_cb handler,
                                         void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_head(uvhttp_server_t *server, const char *pattern, uvhttp_handler_cb handler,
                                          void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_post(uvhttp_server_t *server, const char *pattern, uvhttp_handler_cb handler,
                                          void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_put(uvhttp_server_t *server, const char *pattern, uvhttp_handler_cb handler,
                                         void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_delete(uvhttp_server_t *server, const char *pattern, uvhttp_handler_cb handler,
                                            void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_patch(uvhttp_server_t *server, const char *pattern, uvhttp_handler_cb handler,
                                           void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_options(uvhttp_server_t *server, const char *pattern, uvhttp_handler_cb handler,
                                             void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_any(uvhttp_server_t *server, const char *pattern, uvhttp_handler_cb handler,
                                         void *user);
/** Any method, and how the handler is run (route.h). UVHTTP_EXEC_DEFAULT: as the functions above. */
UVHTTP_EXPORT uvhttp_route_t *uvhttp_route(uvhttp_server_t *server, uvhttp_method_t method, const char *pattern,
                                           uvhttp_handler_cb handler, void *user, uvhttp_exec_t exec);

/** A group: its routes have patterns behind `prefix` ("/api", copied; NULL or "": none), and its middleware and
 * defaults. Two groups may have the same prefix. Owned by the server, and valid until uvhttp_server_free. Never NULL
 * unless the server is: when the group is refused (as a route is), the group that is returned refuses everything. */
UVHTTP_EXPORT uvhttp_group_t *uvhttp_group(uvhttp_server_t *server, const char *prefix);
/** A group in a group: behind its prefix and its middleware, and with its defaults where it has none of its own. */
UVHTTP_EXPORT uvhttp_group_t *uvhttp_group_group(uvhttp_group_t *group, const char *prefix);

/** Routes of a group, as those of a server. `pattern` stands behind the prefix; "" is the prefix itself. */
UVHTTP_EXPORT uvhttp_route_t *uvhttp_group_get(uvhttp_group_t *group, const char *pattern, uvhttp_handler_cb handler,
                                               void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_group_head(uvhttp_group_t *group, const char *pattern, uvhttp_handler_cb handler,
                                                void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_group_post(uvhttp_group_t *group, const char *pattern, uvhttp_handler_cb handler,
                                                void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_group_put(uvhttp_group_t *group, const char *pattern, uvhttp_handler_cb handler,
                                               void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_group_delete(uvhttp_group_t *group, const char *pattern, uvhttp_handler_cb handler,
                                                  void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_group_patch(uvhttp_group_t *group, const char *pattern, uvhttp_handler_cb handler,
                                                 void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_group_options(uvhttp_group_t *group, const char *pattern,
                                                   uvhttp_handler_cb handler, void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_group_any(uvhttp_group_t *group, const char *pattern, uvhttp_handler_cb handler,
                                               void *user);
UVHTTP_EXPORT uvhttp_route_t *uvhttp_group_route(uvhttp_group_t *group, uvhttp_method_t method, const char *pattern,
                                                 uvhttp_handler_cb handler, void *user, uvhttp_exec_t exec);

/** What the routes of a group, and of the groups in it, inherit where their own options are 0; copied, and a second
 * call replaces it. NULL: nothing. Whether routes are registered before or after does not matter. Static files and
 * WebSocket routes have no use for it. Returns 0, or as uvhttp_route_options. */
UVHTTP_EXPORT int uvhttp_group_defaults(uvhttp_group_t *group, const uvhttp_route_options_t *defaults);

/** Middleware of the server (also for requests that match no route) or of a group, in the order of the calls, outer
 * before inner. Returns 0, UVHTTP_E_INVALID (server or group NULL, or refused; run NULL), UVHTTP_E_STATE (after listen)
 * or UVHTTP_E_NOMEM; then destroy has been called, and listen fails, too. */
UVHTTP_EXPORT int uvhttp_use(uvhttp_server_t *server, uvhttp_middleware_t middleware);
UVHTTP_EXPORT int uvhttp_group_use(uvhttp_group_t *group, uvhttp_middleware_t middleware);
/** Middleware of one route, behind that of its groups. Returns as uvhttp_use. */
UVHTTP_EXPORT int uvhttp_route_use(uvhttp_route_t *route, uvhttp_middleware_t middleware);
/** Options of one route; copied, and a second call replaces them. NULL: none of its own. Returns 0, UVHTTP_E_INVALID
 * (route NULL, or a value out of range), UVHTTP_E_UNSUPPORTED (exec: this build has no such mode) or UVHTTP_E_STATE
 * (after listen); listen then fails, too, and says why. */
UVHTTP_EXPORT int uvhttp_route_options(uvhttp_route_t *route, const uvhttp_route_options_t *options);

/* --- other protocols --- */

/** Answers 101 and hands the connection over: from then on it is a uvhttp_tcp_t whose events go to *handlers (static;
 * on_open first, as soon as the answer is queued) with `user`. For a request with Upgrade and "Connection: upgrade" and
 * without a body (RFC 9110 section 7.8); further headers may be added before. Returns 0, UVHTTP_E_INVALID or
 * UVHTTP_E_STATE. */
UVHTTP_EXPORT int uvhttp_response_upgrade(uvhttp_response_t *res, const char *protocol,
                                          const uvhttp_tcp_handlers_t *handlers, void *user);

/* --- metrics --- */

typedef struct uvhttp_metrics {
    uint64_t requests, connections_accepted, connections_active, bytes_received, bytes_sent;
    uint64_t responses_1xx, responses_2xx, responses_3xx, responses_4xx, responses_5xx;
    uint64_t response_time_count; /**< responses measured: from the turn that saw the whole head to the hand-over */
    double response_time_mean_ns;
    uint64_t response_time_p50_ns, response_time_p90_ns, response_time_p99_ns, response_time_p999_ns,
        response_time_max_ns;
    uint64_t
        work_queue_time_count; /**< jobs and handlers that a worker thread has taken: how long they waited for it */
    double work_queue_time_mean_ns;
    uint64_t work_queue_time_p50_ns, work_queue_time_p99_ns, work_queue_time_max_ns;
} uvhttp_metrics_t;

/** A snapshot over all loops. Any thread. */
UVHTTP_EXPORT void uvhttp_server_metrics(const uvhttp_server_t *server, uvhttp_metrics_t *metrics);

/** All counters by name: calls `each` once per counter, refusals as "rejected_<error name in lower case>". Any thread.
 */
UVHTTP_EXPORT void uvhttp_server_counters(const uvhttp_server_t *server,
                                          void (*each)(const char *name, const char *help, uint64_t value, void *user),
                                          void *user);
/** One counter by name; 0 if there is none of that name. Any thread. */
UVHTTP_EXPORT uint64_t uvhttp_server_counter(const uvhttp_server_t *server, const char *name);

/** "0.1.0". Static storage. */
UVHTTP_EXPORT const char *uvhttp_version(void);
/** What this binary was really built from and with, one `key: value` line each: git revision ("unknown" without git),
 * whether files differed from it ("dirty"), a hash of the sources, compiler, flags, options, sanitizers. Static. */
UVHTTP_EXPORT const char *uvhttp_build_info(void);

UVHTTP_END_DECLS

#endif
