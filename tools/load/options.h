/* Owns: what the command line says, checked: everything behind it can rely on the ranges. May include: base, io. */
#ifndef UVHTTP_TOOLS_LOAD_OPTIONS_H
#define UVHTTP_TOOLS_LOAD_OPTIONS_H

#include <stdio.h>

#include "io/io.h"
#include "load/slo.h"
#include "load/stages.h"

typedef enum load_scheme { LOAD_HTTP, LOAD_WS, LOAD_TCP } load_scheme_t;
typedef enum load_arrivals_kind { LOAD_CONSTANT, LOAD_POISSON } load_arrivals_kind_t;
typedef enum load_verify { LOAD_VERIFY_NONE, LOAD_VERIFY_FIRST } load_verify_t;

enum { LOAD_HEADERS_MAX = 64, LOAD_STATUS_MAX = 600 };

/* Exit codes of the program (shared with bench/). */
enum {
    LOAD_OK = 0,
    LOAD_ERROR = 1,
    LOAD_USAGE = 2,
    LOAD_MISSED = 3,   /* an objective of --slo, or --compare found the second result worse */
    LOAD_UNSTABLE = 4, /* too few samples for a judgement */
    LOAD_MISSING = 77,
    LOAD_INTERRUPTED = 130
};

typedef struct load_options {
    const char *url;
    load_scheme_t scheme;
    bool secure;         /* https, wss */
    const char *ca_path; /* NULL: any certificate will do */
    char host[256];      /* without brackets */
    char port[8];
    char authority[300]; /* for Host: as in the URL */
    const char *target;  /* path and query, "/" at least */
    const char *unix_socket;
    const char *urls_path; /* --urls */
    const char *method;
    const char *headers[LOAD_HEADERS_MAX];
    size_t header_count;
    char *body; /* owned */
    size_t body_size;
    bool http2;
    uint32_t threads, connections;
    uint32_t pipeline; /* requests under way on a connection: pipelined, or streams of HTTP/2 */
    uint64_t duration_ns, warmup_ns, timeout_ns, connect_timeout_ns, think_ns;
    bool warmup_auto;                 /* until the server is steady, but at most warmup_ns */
    uint64_t requests;                /* 0: no limit but the duration */
    uint64_t requests_per_connection; /* 0: connections are kept */
    bool is_open;                     /* open loop: --rate, --stages or --capacity */
    double rate;                      /* requests per second in total; 0: closed loop, or stages */
    load_stages_t stages;
    bool finds_capacity;
    uint64_t capacity_ns; /* the search takes no longer */
    uint64_t drain_ns;    /* open loop: how long responses are awaited after the window */
    load_arrivals_kind_t arrivals;
    uint64_t seed;
    uint64_t send_rate, receive_rate; /* bytes per second and connection; 0: as fast as it goes */
    load_verify_t verify;
    bool expects_hash, expects_length;
    uint64_t expect_hash, expect_length;
    bool expect_status[LOAD_STATUS_MAX];
    bool echo;           /* http: the response has to be the body of its request */
    size_t payload_size; /* tcp, ws, echo: random bytes of a message */
    load_slo_t slo;
    bool compares;
    const char *compared[2]; /* two results */
    double threshold;        /* --compare: how much worse is too much, as a share; negative: not given */
    bool allow_remote;
    const char *json_path; /* NULL: none; "-": standard output, in place of the text */
    const char *hgrm_path, *hdr_log_path;
    uvhttp__engine_kind_t engine;
} load_options_t;

/* Reads the command line. Returns true, or false when the program ends here: *exit_code is 0 after --help and
 * --version, LOAD_USAGE or LOAD_ERROR after one line on `err` that says what is wrong and what to do. */
bool load_options_parse(load_options_t *options, int argc, char **argv, FILE *out, FILE *err, int *exit_code);
void load_options_deinit(load_options_t *options);

extern const bool load_has_tls;  /* tls.c: whether https and wss can be had */
extern const bool load_has_zlib; /* deflate.c: whether --hdr can write the log */

/* help.c: the parts of --help; the second one is for a build with TLS. */
extern const char load_help_usage[], load_help_tls[], load_help[];

/* The manual page in roff. */
void load_write_manual(FILE *out);

/* url.c: scheme, host, port and target; `url` has to stay. Returns NULL, or what is wrong, a constant. */
const char *load_set_url(load_options_t *options, const char *url);

/* "10s", "1.5m", "200ms", "1h"; without a unit seconds. */
bool load_parse_duration(const char *text, uint64_t *ns);
/* "5000", "5k", "0.5": per second. */
bool load_parse_rate(const char *text, double *rate);

/* The whole file, with a NUL behind it; the caller's, for uvhttp__free. NULL: errno says why. */
char *load_read_file(const char *path, size_t *size);

#endif
