/* Owns: the counters and gauges of a snapshot, each with its family, labels, type and unit. Any thread. */
#include <stdio.h>

#include "base/alloc.h"
#include "server/metrics_snapshot.h"
#include "server/server.h"

static const int codes[] = {
#define CODE(name, number, status, message) UVHTTP_E_##name,
    UVHTTP_ERROR_MAP(CODE)
#undef CODE
};
#define CODE_COUNT (sizeof codes / sizeof *codes)

/* The rest of the table of counters.h: what is no counter of a loop. R(name, family, type, unit, scale, value, help) */
#define ROWS(R)                                                                                                        \
    R(connections, "uvhttp_connections", GAUGE, "", 1, shown->connections, "Open connections")                         \
    R(active_requests, "http_server_active_requests", GAUGE, "", 1, shown->active_requests,                            \
      "Requests whose head was received and whose response is not complete")                                           \
    R(recording, "uvhttp_metrics_recording", GAUGE, "", 1, shown->recording,                                           \
      "Whether requests are counted by their attributes")                                                              \
    R(uptime, "uvhttp_uptime_seconds", GAUGE, "seconds", NS, shown->uptime_ns, "Time since the server was made")       \
    R(process_cpu_seconds, "process_cpu_seconds", COUNTER, "seconds", NS,                                              \
      process->cpu_user_ns + process->cpu_system_ns, "CPU time of the process, user and system")                       \
    R(process_cpu_user_seconds, "process_cpu_user_seconds", COUNTER, "seconds", NS, process->cpu_user_ns,              \
      "CPU time of the process in user space")                                                                         \
    R(process_resident_memory_bytes, "process_resident_memory_bytes", GAUGE, "bytes", 1, process->resident_bytes,      \
      "Memory of the process that is resident")                                                                        \
    R(process_virtual_memory_bytes, "process_virtual_memory_bytes", GAUGE, "bytes", 1, process->virtual_bytes,         \
      "Address space of the process")                                                                                  \
    R(process_open_fds, "process_open_fds", GAUGE, "", 1, process->open_descriptors, "Open file descriptors")          \
    R(process_max_fds, "process_max_fds", GAUGE, "", 1, process->max_descriptors, "Soft limit of file descriptors")    \
    R(process_threads, "process_threads", GAUGE, "", 1, process->threads, "Threads of the process")                    \
    R(process_start_time_seconds, "process_start_time_seconds", GAUGE, "seconds", NS, process->start_unix_ns,          \
      "Start of the process, in seconds since 1970")

#define NS 1000000000u

#define ROW_COUNTED(name, family, type, unit, scale, value, help) +1
enum { OTHERS = 0 ROWS(ROW_COUNTED) };
#undef ROW_COUNTED

static uvhttp_metric_t counter_metric(const uvhttp__counter_row_t *row, uint64_t value) {
    bool is_total = row->type == UVHTTP__COUNTER_TYPE_TOTAL || row->type == UVHTTP__COUNTER_TYPE_BYTES_TOTAL;
    bool is_bytes = row->type == UVHTTP__COUNTER_TYPE_BYTES || row->type == UVHTTP__COUNTER_TYPE_BYTES_TOTAL;
    return (uvhttp_metric_t){.name = row->name,
                             .family = row->family,
                             .labels = row->labels,
                             .unit = is_bytes ? "bytes" : "",
                             .help = uvhttp__counter_family_help(row),
                             .type = is_total ? UVHTTP_METRIC_COUNTER : UVHTTP_METRIC_GAUGE,
                             .scale = 1,
                             .value = value};
}

static void add_counters(uvhttp__metrics_snapshot_t *snapshot, const uvhttp__counter_sums_t *sums) {
    for (unsigned i = 0; i < UVHTTP__COUNTER_COUNT; i++)
        snapshot->rows[snapshot->shown.metric_count++].shown = counter_metric(uvhttp__counter_row(i), sums->values[i]);
}

static void add_refusals(uvhttp__metrics_snapshot_t *snapshot, const uvhttp__counter_sums_t *sums) {
    for (size_t i = 0; i < CODE_COUNT; i++) {
        uvhttp__metrics_row_t *row = &snapshot->rows[snapshot->shown.metric_count++];
        uvhttp__metrics_rejected_name(codes[i], row->name_text, sizeof row->name_text);
        snprintf(row->labels_text, sizeof row->labels_text, "reason=\"%s\"", row->name_text + sizeof "rejected_" - 1);
        row->shown = (uvhttp_metric_t){.name = row->name_text,
                                       .family = "uvhttp_rejected",
                                       .labels = row->labels_text,
                                       .unit = "",
                                       .help = "Requests refused and connections broken, by reason",
                                       .type = UVHTTP_METRIC_COUNTER,
                                       .scale = 1,
                                       .value = sums->errors[uvhttp__error_index(codes[i])]};
    }
}

/* A value that is not known, or that does not exist, has no row. */
static void add_others(uvhttp__metrics_snapshot_t *snapshot) {
    const uvhttp_metrics_snapshot_t *shown = &snapshot->shown;
    const uvhttp_metrics_process_t *process = &snapshot->process;
    const uvhttp_metric_t others[] = {
#define ROW(name, family, type, unit, scale, value, help)                                                              \
    {#name, family, "", unit, help, UVHTTP_METRIC_##type, scale, value},
        ROWS(ROW)
#undef ROW
    };
    for (size_t i = 0; i < OTHERS; i++)
        if (others[i].value != UINT64_MAX) snapshot->rows[snapshot->shown.metric_count++].shown = others[i];
}

static uint64_t count_active(const uvhttp__metrics_snapshot_t *snapshot, const uvhttp__counter_sums_t *sums) {
    uint64_t begun = UVHTTP__COUNTER(sums, requests) + UVHTTP__COUNTER(sums, requests_faulty_head), ended = 0;
    for (uint32_t i = 0; i < snapshot->shown.series_count; i++) ended += snapshot->series[i].shown.count;
    return snapshot->shown.recording && begun > ended ? begun - ended : 0;
}

bool uvhttp__metrics_read_rows(const uvhttp_server_t *server, uvhttp__metrics_snapshot_t *snapshot) {
    uvhttp__counter_sums_t sums;
    uvhttp__metrics_read_counters(server, &sums);
    snapshot->shown.connections = uvhttp__counters_connections(&sums);
    snapshot->shown.active_requests = count_active(snapshot, &sums);
    uvhttp__metrics_read_process(&snapshot->process, snapshot->shown.connections);
    snapshot->rows = uvhttp__malloc((OTHERS + UVHTTP__COUNTER_COUNT + CODE_COUNT) * sizeof *snapshot->rows);
    if (!snapshot->rows) return false;
    add_others(snapshot);
    add_counters(snapshot, &sums);
    add_refusals(snapshot, &sums);
    return true;
}
