/* Owns: what a snapshot of metrics has for its texts. May include: as server.h. */
#ifndef UVHTTP_SRC_SERVER_METRICS_SNAPSHOT_H
#define UVHTTP_SRC_SERVER_METRICS_SNAPSHOT_H

#include <uvhttp/metrics.h>

#include "base/writer.h"
#include "obs/series.h"

/* The bounds that OpenTelemetry advises are the last ones of uvhttp__duration_bounds. */
#define UVHTTP__OTEL_BOUNDS 14

typedef struct uvhttp__metrics_exemplar {
    uvhttp__exemplar_view_t view;
    const struct uvhttp__metrics_exemplar *next; /* of the same series */
} uvhttp__metrics_exemplar_t;

typedef struct uvhttp__metrics_series {
    uvhttp_metrics_series_t shown;
    uvhttp__series_key_t key;
    const uvhttp__metrics_exemplar_t *exemplars;
    uint64_t durations[UVHTTP__DURATION_COUNTS];
    uint64_t requests[UVHTTP__SIZE_COUNTS], responses[UVHTTP__SIZE_COUNTS];
    char error_text[64];
} uvhttp__metrics_series_t;

typedef struct uvhttp__metrics_loop {
    uvhttp_metrics_loop_t shown;
    uint64_t durations[UVHTTP__DURATION_COUNTS]; /* of iterations */
} uvhttp__metrics_loop_t;

typedef struct uvhttp__metrics_row {
    uvhttp_metric_t shown;
    char name_text[64], labels_text[80]; /* of refusals */
} uvhttp__metrics_row_t;

typedef struct uvhttp__metrics_snapshot {
    uvhttp_metrics_snapshot_t shown; /* first */
    uvhttp_metrics_process_t process;
    uvhttp__metrics_row_t *rows;
    uvhttp__metrics_loop_t *loops;
    uvhttp__metrics_series_t *series;
    uvhttp__metrics_exemplar_t *exemplars;
    uvhttp_metrics_bucket_t *response_times;
} uvhttp__metrics_snapshot_t;

/* Counters of all loops and of the pool of worker threads (metrics.c). */
void uvhttp__metrics_read_counters(const uvhttp_server_t *server, uvhttp__counter_sums_t *sums);
/* "rejected_http_host" for UVHTTP_E_HTTP_HOST. */
void uvhttp__metrics_rejected_name(int code, char *text, size_t size);
/* Fills the series; returns false if out of memory (metrics_series.c). */
bool uvhttp__metrics_read_series(const uvhttp_server_t *server, uvhttp__metrics_snapshot_t *snapshot);
/* Fills the rows: gauges, process, counters, refusals; the series have been read. Returns false if out of memory
 * (metrics_rows.c). */
bool uvhttp__metrics_read_rows(const uvhttp_server_t *server, uvhttp__metrics_snapshot_t *snapshot);
void uvhttp__metrics_read_process(uvhttp_metrics_process_t *process, uint64_t connections);

void uvhttp__metrics_write_text(uvhttp__writer_t *writer, const uvhttp__metrics_snapshot_t *snapshot, bool openmetrics);
void uvhttp__metrics_write_json(uvhttp__writer_t *writer, const uvhttp__metrics_snapshot_t *snapshot);

#endif
