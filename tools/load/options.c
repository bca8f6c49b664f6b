/* Owns: the command line. May include: base, io. */
#include "load/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "base/hash.h"
#include "base/str.h"
#include "build_info.h"

#define SECOND_NS UINT64_C(1000000000)

enum {
    BODY_MAX_BYTES = 1 << 30,
    WARMUP_MAX_S = 30,
    CAPACITY_MAX_S = 120,
    CAPACITY_WINDOW_S = 3,
    CAPACITY_WARMUP_MS = 500,
};

/* Options without a letter. */
enum {
    OPTION_ARRIVALS = 256,
    OPTION_SEED,
    OPTION_THINK,
    OPTION_PER_CONNECTION,
    OPTION_SEND_RATE,
    OPTION_RECEIVE_RATE,
    OPTION_PAYLOAD,
    OPTION_UNIX,
    OPTION_LENGTH,
    OPTION_XXH64,
    OPTION_BODY,
    OPTION_VERIFY,
    OPTION_CA,
    OPTION_TIMEOUT,
    OPTION_CONNECT_TIMEOUT,
    OPTION_ENGINE,
    OPTION_REMOTE,
    OPTION_ECHO,
    OPTION_H2,
    OPTION_SLO,
    OPTION_STAGES,
    OPTION_CAPACITY,
    OPTION_COMPARE,
    OPTION_THRESHOLD,
    OPTION_HDR,
    OPTION_HELP,
    OPTION_MAN,
    OPTION_VERSION,
};

static const struct option names[] = {
    {"connections", required_argument, NULL, 'c'},
    {"threads", required_argument, NULL, 't'},
    {"duration", required_argument, NULL, 'd'},
    {"requests", required_argument, NULL, 'n'},
    {"warmup", required_argument, NULL, 'w'},
    {"pipeline", required_argument, NULL, 'p'},
    {"h2", no_argument, NULL, OPTION_H2},
    {"streams", required_argument, NULL, 'm'},
    {"rate", required_argument, NULL, 'R'},
    {"arrivals", required_argument, NULL, OPTION_ARRIVALS},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"think", required_argument, NULL, OPTION_THINK},
    {"requests-per-connection", required_argument, NULL, OPTION_PER_CONNECTION},
    {"send-rate", required_argument, NULL, OPTION_SEND_RATE},
    {"receive-rate", required_argument, NULL, OPTION_RECEIVE_RATE},
    {"method", required_argument, NULL, 'X'},
    {"header", required_argument, NULL, 'H'},
    {"body", required_argument, NULL, 'b'},
    {"body-file", required_argument, NULL, 'B'},
    {"urls", required_argument, NULL, 'u'},
    {"payload-size", required_argument, NULL, OPTION_PAYLOAD},
    {"unix-socket", required_argument, NULL, OPTION_UNIX},
    {"expect-status", required_argument, NULL, 's'},
    {"expect-length", required_argument, NULL, OPTION_LENGTH},
    {"expect-xxh64", required_argument, NULL, OPTION_XXH64},
    {"expect-body", required_argument, NULL, OPTION_BODY},
    {"verify", required_argument, NULL, OPTION_VERIFY},
    {"ca-file", required_argument, NULL, OPTION_CA},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"connect-timeout", required_argument, NULL, OPTION_CONNECT_TIMEOUT},
    {"json", required_argument, NULL, 'j'},
    {"engine", required_argument, NULL, OPTION_ENGINE},
    {"echo", no_argument, NULL, OPTION_ECHO},
    {"slo", required_argument, NULL, OPTION_SLO},
    {"stages", required_argument, NULL, OPTION_STAGES},
    {"capacity", optional_argument, NULL, OPTION_CAPACITY},
    {"compare", no_argument, NULL, OPTION_COMPARE},
    {"threshold", required_argument, NULL, OPTION_THRESHOLD},
    {"hdr", required_argument, NULL, OPTION_HDR},
    {"allow-remote", no_argument, NULL, OPTION_REMOTE},
    {"help", no_argument, NULL, OPTION_HELP},
    {"man", no_argument, NULL, OPTION_MAN},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

/* What went wrong, for the one line at the end. */
typedef struct parser {
    load_options_t *options;
    FILE *err;
    const char *name; /* of the option that is being read */
    bool duration_given, warmup_given, arrivals_given, payload_given, status_given, pipeline_given, streams_given;
} parser_t;

static UVHTTP_PRINTF(2, 3) bool refuse(parser_t *parser, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("uvhttp-load: ", parser->err);
    vfprintf(parser->err, format, arguments);
    fputs("; --help lists the options\n", parser->err);
    va_end(arguments);
    return false;
}

/* --- values --- */

bool load_parse_duration(const char *text, uint64_t *ns) {
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"m", 60}, {"h", 3600}};
    char *end;
    if (text[0] < '0' || text[0] > '9') return false;
    double value = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) != 0) continue;
        double seconds = value * units[i].seconds;
        if (!(seconds <= 1e6)) return false; /* eleven days */
        *ns = (uint64_t)llround(seconds * 1e9);
        return true;
    }
    return false;
}

static bool read_duration(parser_t *parser, const char *text, uint64_t min_ns, uint64_t *ns) {
    if (load_parse_duration(text, ns) && *ns >= min_ns) return true;
    return refuse(parser, "--%s %s: expected a time such as 10s, 200ms or 1.5m", parser->name, text);
}

/* A time, or "auto", or "auto:" and the longest time. */
static bool read_warmup(parser_t *parser, const char *text, load_options_t *options) {
    options->warmup_auto = strncmp(text, "auto", 4) == 0 && (text[4] == ':' || text[4] == '\0');
    if (!options->warmup_auto) return read_duration(parser, text, 0, &options->warmup_ns);
    options->warmup_ns = WARMUP_MAX_S * SECOND_NS;
    if (text[4] == '\0') return true;
    if (load_parse_duration(text + 5, &options->warmup_ns) && options->warmup_ns >= SECOND_NS) return true;
    return refuse(parser, "--warmup %s: expected auto, or auto:T of at least 1s", text);
}

static bool read_number(parser_t *parser, const char *text, uint64_t min, uint64_t max, uint64_t *number) {
    uint64_t value;
    if (uvhttp__str_parse_u64(uvhttp__str_from(text), &value) == 0 && value >= min && value <= max) {
        *number = value;
        return true;
    }
    return refuse(parser, "--%s %s: expected a number from %llu to %llu", parser->name, text, (unsigned long long)min,
                  (unsigned long long)max);
}

static bool read_number32(parser_t *parser, const char *text, uint32_t max, uint32_t *number) {
    uint64_t value = 0;
    if (!read_number(parser, text, 1, max, &value)) return false;
    *number = (uint32_t)value;
    return true;
}

bool load_parse_rate(const char *text, double *rate) {
    char *end;
    if (text[0] < '0' || text[0] > '9') return false;
    *rate = strtod(text, &end);
    if (*end == 'k') *rate *= 1000, end++;
    return *end == '\0' && *rate <= 1e8;
}

static bool read_rate(parser_t *parser, const char *text, double *rate) {
    if (load_parse_rate(text, rate) && *rate >= 0.001) return true;
    return refuse(parser, "--rate %s: expected requests per second, 0.001 to 100000000", text);
}

static bool read_hash(parser_t *parser, const char *text, load_options_t *options) {
    size_t size = strlen(text);
    uint64_t hash = 0;
    for (size_t i = 0; i < size && i < 16; i++) {
        int digit = uvhttp__hex_value(text[i]);
        if (digit < 0) size = 0;
        hash = hash << 4 | (uint64_t)(digit & 15);
    }
    if (size != 16) return refuse(parser, "--expect-xxh64 %s: expected 16 hexadecimal digits (xxh64sum FILE)", text);
    options->expects_hash = true;
    options->expect_hash = hash;
    return true;
}

static bool read_status(parser_t *parser, const char *text, load_options_t *options) {
    uvhttp_str_t rest = uvhttp__str_from(text), item;
    memset(options->expect_status, 0, sizeof options->expect_status);
    while (uvhttp__list_next(&rest, &item)) {
        uint64_t status = 0;
        bool is_class = item.size == 3 && item.data[0] >= '1' && item.data[0] <= '5' && (item.data[1] | 0x20) == 'x' &&
                        (item.data[2] | 0x20) == 'x';
        bool is_one = uvhttp__str_parse_u64(item, &status) == 0 && status >= 100 && status < LOAD_STATUS_MAX;
        if (!is_class && !is_one)
            return refuse(parser, "--expect-status %s: expected a list such as 200,304 or 2xx", text);
        if (is_one) options->expect_status[status] = true;
        for (int i = 0; is_class && i < 100; i++) options->expect_status[(item.data[0] - '0') * 100 + i] = true;
    }
    return true;
}

static bool read_header(parser_t *parser, const char *text, load_options_t *options) {
    const char *colon = strchr(text, ':');
    uvhttp_str_t name = {text, colon ? (size_t)(colon - text) : 0};
    if (!colon || !uvhttp__valid_header_name(name) || !uvhttp__valid_header_value(uvhttp__str_from(colon + 1)))
        return refuse(parser, "--header %s: expected 'Name: value'", text);
    if (uvhttp__str_equal_nocase(name, UVHTTP__STR("content-length")) ||
        uvhttp__str_equal_nocase(name, UVHTTP__STR("transfer-encoding")))
        return refuse(parser, "--header %s: it is made from the body; leave it out", text);
    if (options->header_count == LOAD_HEADERS_MAX) return refuse(parser, "--header: at most %d", LOAD_HEADERS_MAX);
    options->headers[options->header_count++] = text;
    return true;
}

char *load_read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    char *data = NULL;
    size_t used = 0, space = 0;
    for (;;) {
        if (space - used < 2) {
            space = space ? space * 2 : 16384;
            char *more = space <= BODY_MAX_BYTES ? uvhttp__realloc(data, space) : NULL;
            if (!more) {
                errno = EFBIG;
                break;
            }
            data = more;
        }
        size_t got = fread(data + used, 1, space - used - 1, file);
        used += got;
        if (got > 0) continue;
        if (ferror(file)) break;
        fclose(file);
        data[used] = '\0';
        *size = used;
        return data;
    }
    int error = errno;
    fclose(file);
    uvhttp__free(data);
    errno = error;
    return NULL;
}

static bool set_body(parser_t *parser, const char *text, bool is_file) {
    load_options_t *options = parser->options;
    if (options->body) return refuse(parser, "--%s: there is a body already", parser->name);
    options->body_size = strlen(text);
    if (is_file)
        options->body = load_read_file(text, &options->body_size);
    else if ((options->body = uvhttp__malloc(options->body_size + 1)))
        memcpy(options->body, text, options->body_size + 1);
    if (options->body) return true;
    return refuse(parser, "--%s %s: cannot be read: %s", parser->name, is_file ? text : "", strerror(errno));
}

static bool set_expected_body(parser_t *parser, const char *path) {
    load_options_t *options = parser->options;
    size_t size;
    char *data = load_read_file(path, &size);
    if (!data) return refuse(parser, "--expect-body %s: cannot be read: %s", path, strerror(errno));
    options->expects_hash = options->expects_length = true;
    options->expect_hash = XXH64(data, size, 0);
    options->expect_length = size;
    uvhttp__free(data);
    return true;
}

static bool choose(parser_t *parser, const char *text, const char *first, const char *second, bool *is_second) {
    *is_second = strcmp(text, second) == 0;
    if (*is_second || strcmp(text, first) == 0) return true;
    return refuse(parser, "--%s %s: expected %s or %s", parser->name, text, first, second);
}

static bool set_engine(parser_t *parser, const char *text) {
    if (uvhttp__engine_parse(text, &parser->options->engine) == 0) return true;
    return refuse(parser, "--engine %s: expected auto, uring or epoll", text);
}

static bool set_method(parser_t *parser, const char *text) {
    parser->options->method = text;
    if (uvhttp__valid_header_name(uvhttp__str_from(text))) return true;
    return refuse(parser, "--method %s: not a method", text);
}

/* A value whose parser says what is wrong with it. */
static bool accepted(parser_t *parser, const char *text, const char *wrong) {
    return wrong ? refuse(parser, "--%s %s: %s", parser->name, text, wrong) : true;
}

static bool set_capacity(parser_t *parser, const char *text) {
    parser->options->finds_capacity = true;
    parser->options->capacity_ns = CAPACITY_MAX_S * SECOND_NS;
    return !text || read_duration(parser, text, SECOND_NS, &parser->options->capacity_ns);
}

static bool set_threshold(parser_t *parser, const char *text) {
    char *end;
    double percent = strtod(text, &end);
    if (*end == '%') end++;
    parser->options->threshold = percent / 100;
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && percent <= 1000) return true;
    return refuse(parser, "--threshold %s: expected a percentage such as 5", text);
}

/* One file of each format: the name says which. */
static bool set_hdr(parser_t *parser, const char *path) {
    const char *dot = strrchr(path, '.');
    bool is_text = dot && strcmp(dot, ".hgrm") == 0;
    if (!is_text && !load_has_zlib)
        return refuse(parser,
                      "--hdr %s: the log is compressed and this is a build without zlib; a name that ends in "
                      ".hgrm gives the percentiles as text",
                      path);
    *(is_text ? &parser->options->hgrm_path : &parser->options->hdr_log_path) = path;
    return true;
}

/* --- options --- */

static bool set_load(parser_t *parser, int letter, const char *text) {
    load_options_t *options = parser->options;
    bool is_second = false, ok;
    switch (letter) {
        case 'c': return read_number32(parser, text, 1000000, &options->connections);
        case 't': return read_number32(parser, text, 1024, &options->threads);
        case 'd': parser->duration_given = true; return read_duration(parser, text, 1, &options->duration_ns);
        case 'n': return read_number(parser, text, 1, UINT64_C(1) << 60, &options->requests);
        case 'w': parser->warmup_given = true; return read_warmup(parser, text, options);
        case 'p': parser->pipeline_given = true; return read_number32(parser, text, 1024, &options->pipeline);
        case 'm': parser->streams_given = true; return read_number32(parser, text, 1024, &options->pipeline);
        case OPTION_H2: options->http2 = true; return true;
        case 'R': return read_rate(parser, text, &options->rate);
        case OPTION_ARRIVALS:
            parser->arrivals_given = true;
            ok = choose(parser, text, "constant", "poisson", &is_second);
            options->arrivals = is_second ? LOAD_POISSON : LOAD_CONSTANT;
            return ok;
        case OPTION_STAGES: return accepted(parser, text, load_stages_parse(&options->stages, text));
        case OPTION_CAPACITY: return set_capacity(parser, text);
        case OPTION_SEED: return read_number(parser, text, 0, UINT64_MAX, &options->seed);
        case OPTION_THINK: return read_duration(parser, text, 0, &options->think_ns);
        case OPTION_PER_CONNECTION:
            return read_number(parser, text, 1, UINT64_C(1) << 60, &options->requests_per_connection);
        case OPTION_SEND_RATE: return read_number(parser, text, 1, UINT64_C(1) << 40, &options->send_rate);
        default: return read_number(parser, text, 1, UINT64_C(1) << 40, &options->receive_rate);
    }
}

static bool set_checks(parser_t *parser, int letter, const char *text) {
    load_options_t *options = parser->options;
    bool is_second = false, ok;
    switch (letter) {
        case 's': parser->status_given = true; return read_status(parser, text, options);
        case OPTION_ECHO: options->echo = true; return true;
        case OPTION_LENGTH:
            options->expects_length = true;
            return read_number(parser, text, 0, INT64_MAX, &options->expect_length);
        case OPTION_XXH64: return read_hash(parser, text, options);
        case OPTION_BODY: return set_expected_body(parser, text);
        case OPTION_VERIFY:
            ok = choose(parser, text, "none", "first", &is_second);
            options->verify = is_second ? LOAD_VERIFY_FIRST : LOAD_VERIFY_NONE;
            return ok;
        case OPTION_TIMEOUT: return read_duration(parser, text, 1000000, &options->timeout_ns);
        default: return read_duration(parser, text, 1000000, &options->connect_timeout_ns);
    }
}

static bool set_option(parser_t *parser, int letter, const char *text) {
    load_options_t *options = parser->options;
    uint64_t size = 0;
    switch (letter) {
        case 'X': return set_method(parser, text);
        case 'H': return read_header(parser, text, options);
        case 'b': return set_body(parser, text, false);
        case 'B': return set_body(parser, text, true);
        case 'u': options->urls_path = text; return true;
        case 'j': options->json_path = text; return true;
        case OPTION_PAYLOAD:
            parser->payload_given = true;
            if (!read_number(parser, text, 1, 1 << 20, &size)) return false;
            options->payload_size = (size_t)size;
            return true;
        case OPTION_UNIX: options->unix_socket = text; return true;
        case OPTION_ENGINE: return set_engine(parser, text);
        case OPTION_CA: options->ca_path = text; return true;
        case OPTION_REMOTE: options->allow_remote = true; return true;
        case OPTION_COMPARE: options->compares = true; return true;
        case OPTION_THRESHOLD: return set_threshold(parser, text);
        case OPTION_HDR: return set_hdr(parser, text);
        case OPTION_SLO: return accepted(parser, text, load_slo_parse(&options->slo, text));
        case 's':
        case OPTION_ECHO:
        case OPTION_LENGTH:
        case OPTION_XXH64:
        case OPTION_BODY:
        case OPTION_VERIFY:
        case OPTION_TIMEOUT:
        case OPTION_CONNECT_TIMEOUT: return set_checks(parser, letter, text);
        default: return set_load(parser, letter, text);
    }
}

static const char *name_of(int letter) {
    for (const struct option *option = names; option->name; option++)
        if (option->val == letter) return option->name;
    return "?";
}

/* --- what makes sense together only, or not at all --- */

static bool check_echo(parser_t *parser) {
    load_options_t *options = parser->options;
    bool expects = options->expects_hash || options->expects_length;
    if (!options->echo) return true;
    if (options->scheme != LOAD_HTTP) return refuse(parser, "--echo is for http://; tcp:// and ws:// always compare");
    if (expects) return refuse(parser, "--echo with --expect-length, -xxh64 or -body: the request says what to expect");
    if (options->send_rate > 0) return refuse(parser, "--echo with --send-rate");
    const char *mark = options->body ? memchr(options->body, '%', options->body_size) : NULL;
    size_t after = mark ? options->body_size - (size_t)(mark + 1 - options->body) : 0;
    if (options->body && (!mark || memchr(mark + 1, '%', after)))
        return refuse(parser, "--echo with a body: mark the place of the random characters in it with one %%");
    return true;
}

static bool check_http2(parser_t *parser) {
    const load_options_t *options = parser->options;
    if (!options->http2)
        return !parser->streams_given || refuse(parser, "--streams is for --h2; connections of HTTP/1 have --pipeline");
    if (options->scheme != LOAD_HTTP) return refuse(parser, "--h2 is for http:// and https://");
    if (parser->pipeline_given) return refuse(parser, "--pipeline with --h2: it has streams, --streams N");
    if (options->send_rate > 0 || options->receive_rate > 0) return refuse(parser, "a slow client is one of HTTP/1");
    return true;
}

static bool check_loop(parser_t *parser) {
    load_options_t *options = parser->options;
    bool staged = options->stages.count > 0, ends_early = options->requests > 0;
    if (staged && (options->rate > 0 || parser->duration_given || parser->warmup_given || ends_early))
        return refuse(parser, "--stages with -R, -d, -w or -n: the stages say how long and how fast");
    if (options->finds_capacity && (staged || ends_early))
        return refuse(parser, "--capacity with --stages or -n: it chooses the rates itself");
    if (options->finds_capacity && options->slo.count == 0)
        return refuse(parser, "--capacity needs --slo: capacity is the highest rate that meets it");
    options->is_open = options->rate > 0 || staged || options->finds_capacity;
    if (parser->arrivals_given && !options->is_open) return refuse(parser, "--arrivals without --rate or --stages");
    if (options->is_open && options->think_ns > 0)
        return refuse(parser, "--think with --rate: the rate says when a request is due");
    if (options->think_ns > 0 && options->pipeline > 1)
        return refuse(parser, "--think with --pipeline or --streams: a connection pauses when nothing is in flight");
    if (options->requests > 0 && options->warmup_ns > 0)
        return refuse(parser, "--warmup with --requests: all of them are counted");
    return true;
}

static bool check(parser_t *parser) {
    load_options_t *options = parser->options;
    bool slow = options->send_rate > 0 || options->receive_rate > 0;
    if (options->threshold >= 0) return refuse(parser, "--threshold is for --compare");
    if (options->connections < options->threads)
        return refuse(parser, "%u connections for %u threads: each thread needs one (-c, -t)", options->connections,
                      options->threads);
    if (!check_http2(parser)) return false;
    if (slow && options->pipeline > 1) return refuse(parser, "--pipeline with a slow client");
    if (slow && options->secure) return refuse(parser, "a slow client is one of http://, not of https://");
    if (options->ca_path && !options->secure) return refuse(parser, "--ca-file is for https:// and wss://");
    if (options->scheme != LOAD_HTTP) {
        bool has_headers = options->scheme == LOAD_TCP && options->header_count > 0;
        if (options->body || has_headers || options->urls_path || options->method || parser->status_given)
            return refuse(parser, "tcp:// and ws:// send messages: --payload-size is what can be chosen");
        if (slow) return refuse(parser, "a slow client is one of http://");
        if (options->expects_hash || options->expects_length)
            return refuse(parser, "--expect-length, -xxh64 or -body are for http://; tcp:// and ws:// always compare");
    } else if (parser->payload_given && !options->echo) {
        return refuse(parser, "--payload-size is for tcp://, ws:// and --echo; -b or -B give a body");
    }
    return check_loop(parser) && check_echo(parser);
}

static void fill_in(parser_t *parser) {
    load_options_t *options = parser->options;
    if (!options->method) options->method = options->body || options->echo ? "POST" : "GET";
    if (options->requests > 0 && !parser->duration_given) options->duration_ns = 3600 * SECOND_NS;
    if (options->stages.count > 0) options->duration_ns = options->stages.duration_ns;
    if (options->finds_capacity && !parser->duration_given) options->duration_ns = CAPACITY_WINDOW_S * SECOND_NS;
    if (options->finds_capacity && !parser->warmup_given) options->warmup_ns = CAPACITY_WARMUP_MS * (SECOND_NS / 1000);
    options->drain_ns = options->timeout_ns;
}

/* --compare: two results instead of a URL. */
static bool set_results(parser_t *parser, int count, char **paths) {
    if (count != 2) return refuse(parser, "--compare: expected two results that --json wrote");
    parser->options->compared[0] = paths[0];
    parser->options->compared[1] = paths[1];
    return true;
}

static bool parse(parser_t *parser, int argc, char **argv, FILE *out, int *exit_code) {
    optind = 0; /* a second command line in one process: tests */
    opterr = 0;
    for (int letter; (letter = getopt_long(argc, argv, ":c:t:d:n:w:p:m:R:X:H:b:B:u:s:j:h", names, NULL)) != -1;) {
        if (letter == OPTION_HELP || letter == 'h' || letter == OPTION_VERSION || letter == OPTION_MAN) {
            if (letter == OPTION_VERSION)
                fputs("uvhttp-load " UVHTTP_BUILD_VERSION "\n", out);
            else if (letter == OPTION_MAN)
                load_write_manual(out);
            else
                fprintf(out, "%s%s%s", load_help_usage, load_has_tls ? load_help_tls : "", load_help);
            *exit_code = LOAD_OK;
            return false;
        }
        /* Where a value is missing at the end, musl counts it. */
        if (letter == ':') return refuse(parser, "%s needs a value", argv[(optind > argc ? argc : optind) - 1]);
        if (letter == '?') return refuse(parser, "%s is not an option", argv[optind - 1]);
        parser->name = name_of(letter);
        if (!set_option(parser, letter, optarg)) return false;
    }
    if (parser->options->compares) return set_results(parser, argc - optind, argv + optind);
    if (optind == argc) return refuse(parser, "no URL");
    if (optind + 1 < argc) return refuse(parser, "%s: one URL is enough; --urls takes a list", argv[optind + 1]);
    const char *wrong = load_set_url(parser->options, argv[optind]);
    if (wrong) return refuse(parser, "%s: %s", argv[optind], wrong);
    if (!check(parser)) return false;
    fill_in(parser);
    return true;
}

bool load_options_parse(load_options_t *options, int argc, char **argv, FILE *out, FILE *err, int *exit_code) {
    *options = (load_options_t){
        .threads = 2,
        .connections = 10,
        .pipeline = 1,
        .duration_ns = 10 * SECOND_NS,
        .timeout_ns = 10 * SECOND_NS,
        .connect_timeout_ns = 5 * SECOND_NS,
        .seed = 1,
        .verify = LOAD_VERIFY_FIRST,
        .payload_size = 64,
        .engine = UVHTTP__ENGINE_AUTO,
        .threshold = -1,
    };
    for (int i = 200; i < 300; i++) options->expect_status[i] = true;
    *exit_code = LOAD_USAGE;
    parser_t parser = {.options = options, .err = err};
    if (parse(&parser, argc, argv, out, exit_code)) return true;
    load_options_deinit(options);
    return false;
}

void load_options_deinit(load_options_t *options) {
    uvhttp__free(options->body);
    options->body = NULL;
}
