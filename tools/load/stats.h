/* Owns: what is counted: one per thread while it runs, one for the whole at the end. May include: base, obs. */
#ifndef UVHTTP_TOOLS_LOAD_STATS_H
#define UVHTTP_TOOLS_LOAD_STATS_H

#include "obs/histogram.h"

/* X(name, what it is). A request that is lost with its connection counts once, as does each failed connecting. */
#define LOAD_ERROR_MAP(X)                                                                                              \
    X(connect, "connecting failed or took too long")                                                                   \
    X(read, "the connection ended before the response")                                                                \
    X(write, "the connection ended while the request was being sent")                                                  \
    X(timeout, "no response in time")                                                                                  \
    X(reset, "the server reset the stream, or sent GOAWAY with an error")                                              \
    X(protocol, "malformed response, or bytes that nobody asked for")                                                  \
    X(status, "a status that was not expected")                                                                        \
    X(body, "a body that was not expected")

typedef enum load_error {
#define LOAD_ERROR_ENUM(name, what) LOAD_ERROR_##name,
    LOAD_ERROR_MAP(LOAD_ERROR_ENUM)
#undef LOAD_ERROR_ENUM
        LOAD_ERROR_KINDS
} load_error_t;

enum { LOAD_EXAMPLE_SIZE = 160 };

typedef struct load_cpu {
    uint64_t user_ns, system_ns;
    uint64_t switches; /* context switches, voluntary or not */
} load_cpu_t;

/* Of the requests that were due in a stage. */
typedef struct load_stage_stats {
    uvhttp__histogram_t latency;
    uint64_t due;    /* requests that were taken from the timetable */
    uint64_t errors; /* that were noticed while it ran */
} load_stage_stats_t;

typedef struct load_stats {
    uvhttp__histogram_t latency; /* ns. Closed loop: from the flush of the request to its response; open loop: from
                                  * the moment that it was due */
    uvhttp__histogram_t service; /* ns, open loop: from the flush, which hides what waited before */
    uvhttp__histogram_t connect; /* ns, from the attempt to the connection; of the whole run */
    uvhttp__histogram_t rates;   /* responses per second of a thread, a sample each 100 ms */
    uint64_t requests;           /* responses in the histogram of latencies */
    uint64_t responses;          /* that came within the window: the throughput */
    uint64_t bytes;              /* received within the window */
    uint64_t timeouts_included;  /* of `requests`: that have no response and count with the time that they waited */
    uint64_t pending;     /* under way when the window closed; open loop: never got a response, which is an error too */
    uint64_t connections; /* opened in the whole run */
    uint64_t responses_total;                           /* of the whole run, within the window or not */
    uint64_t statuses[600];                             /* responses within the window by status */
    uint64_t errors[LOAD_ERROR_KINDS];                  /* of the whole run */
    _Atomic uint64_t error_total;                       /* of all kinds; the sampler reads it meanwhile */
    char examples[LOAD_ERROR_KINDS][LOAD_EXAMPLE_SIZE]; /* the first of each kind */
    load_cpu_t cpu;                                     /* of the window */
    uint64_t start_ns, end_ns;                          /* the window; CLOCK_MONOTONIC */
    uvhttp__histogram_t lateness; /* ns, open loop: from the due time to the sending while a connection was free: this
                                   * program's own delay */
    load_stage_stats_t *stages;   /* --stages: one for each; NULL: none */
    uint32_t stage_count, stage_now;
} load_stats_t;

extern const char *const load_error_names[LOAD_ERROR_KINDS];
extern const char *const load_error_whats[LOAD_ERROR_KINDS];

void load_stats_init(load_stats_t *stats);
/* For stages. False: out of memory. deinit in any case. */
bool load_stats_add_stages(load_stats_t *stats, uint32_t count);
void load_stats_deinit(load_stats_t *stats);
/* `from` has stopped counting. The window becomes the one that spans both. Both have the same stages, or `to` none. */
void load_stats_merge(load_stats_t *to, const load_stats_t *from);
uint64_t load_stats_errors(const load_stats_t *stats);
/* Errors by everything that was tried in the whole run: responses, and requests and connections that failed. 0 to 1. */
double load_stats_error_share(const load_stats_t *stats);

/* Counts n errors and keeps the words if they are the first of their kind. */
void load_stats_error(load_stats_t *stats, load_error_t kind, uint64_t n, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* What the calling thread has used so far. */
load_cpu_t load_cpu_now(void);

/* Percent of the values within one standard deviation of the mean. */
double load_within_stdev(const uvhttp__histogram_t *histogram);

#endif
