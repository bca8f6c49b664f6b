/* Owns: metrics: snapshots of a server's counters, gauges and histograms, and their formats for Prometheus, OpenMetrics
 * and JSON. */
#ifndef UVHTTP_METRICS_H
#define UVHTTP_METRICS_H

#include <uvhttp/server.h>

UVHTTP_BEGIN_DECLS

typedef enum uvhttp_metric_type {
    UVHTTP_METRIC_COUNTER, /**< only grows; in Prometheus its name ends in _total */
    UVHTTP_METRIC_GAUGE    /**< the value now */
} uvhttp_metric_type_t;

/** A counter or gauge. Several with the same family differ by their labels. */
typedef struct uvhttp_metric {
    const char *name;   /**< as in uvhttp_server_counters: "connections_accepted"; unique */
    const char *family; /**< without suffix: "uvhttp_connections_accepted" */
    const char *labels; /**< "" or as in Prometheus: class="2xx" */
    const char *unit;   /**< "", "bytes" or "seconds" */
    const char *help;   /**< of the family */
    uvhttp_metric_type_t type;
    uint32_t scale; /**< 1, or 1,000,000,000: the value is in billionths of the unit */
    uint64_t value;
} uvhttp_metric_t;

/** Requests that have the same attributes. Arrays have one entry per bound and one more, for values above the last
 * bound; an entry counts the values above the bound before it, up to and including its own. The duration is that from
 * the loop iteration that received the complete head until the response is queued. */
typedef struct uvhttp_metrics_series_s {
    const char *route;      /**< pattern of the route; "" if none matched */
    const char *method;     /**< "GET" ...; "_OTHER" for unknown methods */
    const char *protocol;   /**< "1.0", "1.1" or "2" */
    const char *scheme;     /**< "http" or "https": of the connection */
    const char *error_type; /**< "", the status of a 5xx response, or a lower-case error name such as "aborted" */
    uint32_t status;        /**< 0: there was no response */
    bool overflow;          /**< the requests beyond metrics_series_max; all attributes are empty */
    uint64_t count;         /**< requests that have ended */
    uint64_t duration_sum_ns;
    const uint64_t *duration_counts;     /**< bounds: uvhttp_metrics_snapshot_t.duration_bounds_ns */
    uint64_t request_body_sum;           /**< bytes */
    const uint64_t *request_body_counts; /**< bounds: size_bounds */
    uint64_t response_body_sum;          /**< bytes, without heads and framing */
    const uint64_t *response_body_counts;
} uvhttp_metrics_series_t;

/** One loop and its thread. Counts are totals since the start. */
typedef struct uvhttp_metrics_loop_s {
    uint32_t index;
    uint64_t connections; /**< open now */
    uint64_t requests, bytes_received, bytes_sent, iterations;
    uint64_t cpu_ns;  /**< CPU time of its thread, kernel included. 0 once the loop has ended */
    uint64_t busy_ns; /**< time in iterations, without waiting and sending. 0 unless `recording` */
} uvhttp_metrics_loop_t;

/** Response times from low_ns to high_ns, both included. A bucket is at most 1/32 of low_ns wide. */
typedef struct uvhttp_metrics_bucket {
    uint64_t low_ns, high_ns, count;
} uvhttp_metrics_bucket_t;

typedef struct uvhttp_metrics_process_s {
    uint64_t cpu_user_ns, cpu_system_ns;
    uint64_t resident_bytes, virtual_bytes;
    uint64_t open_descriptors; /**< UINT64_MAX: unknown (Linux before 6.2 with many connections, or no /proc) */
    uint64_t max_descriptors;  /**< soft limit; UINT64_MAX: none */
    uint64_t threads;
    uint64_t start_unix_ns;
} uvhttp_metrics_process_t;

/** An immutable snapshot, allocated by uvhttp_metrics_take. Its texts are valid until the snapshot or the server is
 * freed. Values of different loops may have been read at slightly different times. */
typedef struct uvhttp_metrics_snapshot {
    uint32_t struct_size;         /**< bytes of this structure in the library: fields beyond it do not exist */
    bool recording;               /**< config.metrics: there are series */
    const char *version, *engine; /**< engine: "" before run */
    uint64_t time_unix_ns;
    uint64_t uptime_ns; /**< since uvhttp_server_new */
    uint64_t connections;
    uint64_t active_requests; /**< whose head has been received and whose response is not complete. 0 unless
                                 `recording` */
    uint64_t work_queue_count, work_queue_sum_ns; /**< jobs and handlers that worker threads have started, and how long
                                                     they had waited */
    uint32_t metric_count, loop_count, series_count, response_time_count;
    uint32_t duration_bound_count, size_bound_count;
    const uint64_t *duration_bounds_ns; /**< ascending; those from 5 ms on are OpenTelemetry's */
    const uint64_t *size_bounds;        /**< bytes, ascending */
} uvhttp_metrics_snapshot_t;

/** Takes a snapshot. It allocates memory and reads /proc, which takes some ten microseconds. Returns NULL when out of
 * memory, or if `server` is NULL. Any thread, until the server is freed. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_metrics_snapshot_t *uvhttp_metrics_take(const uvhttp_server_t *server);
/** Frees a snapshot. NULL is allowed. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD void uvhttp_metrics_free(uvhttp_metrics_snapshot_t *snapshot);

/** Return parts of a snapshot, which owns them. `index` is below metric_count, loop_count, series_count or
 * response_time_count (buckets that are not empty, ascending). Return NULL for a larger index, or if `snapshot` is
 * NULL. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD const uvhttp_metrics_process_t *
uvhttp_metrics_process(const uvhttp_metrics_snapshot_t *snapshot);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD const uvhttp_metric_t *
uvhttp_metrics_metric(const uvhttp_metrics_snapshot_t *snapshot, uint32_t index);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD const uvhttp_metrics_loop_t *
uvhttp_metrics_loop(const uvhttp_metrics_snapshot_t *snapshot, uint32_t index);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD const uvhttp_metrics_series_t *
uvhttp_metrics_series(const uvhttp_metrics_snapshot_t *snapshot, uint32_t index);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD const uvhttp_metrics_bucket_t *
uvhttp_metrics_response_time(const uvhttp_metrics_snapshot_t *snapshot, uint32_t index);

typedef enum uvhttp_metrics_format {
    UVHTTP_METRICS_PROMETHEUS,  /**< text format 0.0.4 */
    UVHTTP_METRICS_OPENMETRICS, /**< OpenMetrics 1.0, with exemplars */
    UVHTTP_METRICS_JSON         /**< docs/guide/metrics.md */
} uvhttp_metrics_format_t;

/** Returns a snapshot as text, terminated; *size (may be NULL) receives its bytes. Free it with
 * uvhttp_metrics_text_free. Returns NULL when out of memory or if `snapshot` is NULL. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD char *uvhttp_metrics_text(const uvhttp_metrics_snapshot_t *snapshot,
                                                            uvhttp_metrics_format_t format, size_t *size);
/** Frees the result of uvhttp_metrics_text. NULL is allowed. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD void uvhttp_metrics_text_free(char *text);

/** A handler that responds with the metrics of a server. `user` is that uvhttp_server_t. It may differ from the server
 * that handles the request, and must live as long as that one. The Accept field selects OpenMetrics or JSON; the
 * default is the text format of Prometheus. Responds on the loop. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD void uvhttp_metrics_handler(uvhttp_request_t *req, uvhttp_response_t *res,
                                                              void *user);
/** Registers uvhttp_metrics_handler for GET at `pattern`, with the metrics of the same server. Everyone who can reach
 * the route can read them: protect it with middleware (uvhttp_route_use), or listen on a separate address. Returns as
 * uvhttp_get. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_metrics_route(uvhttp_server_t *server, const char *pattern);

UVHTTP_END_DECLS

#endif
