/* Owns: the requests as bytes, and the target. May include: base, io. */
#include "load/plan.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "base/libc.h"
#include "base/str.h"
#include "load/random.h"
#include "load/ws_frame.h"

/* Bytes of one request's copies: pipelined requests go out from one piece of memory as long as it is small. */
enum { COPIES_SIZE_MAX = 256 * 1024 };

/* --- echoes --- */

const char load_echo_symbols[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static size_t echo_total(const load_options_t *options) {
    return options->payload_size + (options->body ? options->body_size - 1 : 0); /* the mark is not sent */
}

/* Text is ASCII: a text message has to be UTF-8, and a body may become part of JSON. */
static void fill_pool(char *pool, size_t size, uint64_t seed, bool is_text) {
    for (size_t i = 0; i < size; i += 8) {
        uint64_t bits = load_random_next(&seed);
        for (size_t j = i; j < size && j < i + 8; j++, bits >>= 8)
            pool[j] = is_text ? load_echo_symbols[bits & 63] : (char)bits;
    }
}

static bool make_echo(load_plan_t *plan) {
    const load_options_t *options = plan->options;
    load_echo_t *echo = &plan->echo;
    size_t size = LOAD_POOL_STEPS * 4 + options->payload_size;
    const char *mark = options->echo && options->body ? memchr(options->body, '%', options->body_size) : NULL;
    if (mark) {
        echo->before = (uvhttp_str_t){options->body, (size_t)(mark - options->body)};
        echo->after = (uvhttp_str_t){mark + 1, options->body_size - echo->before.size - 1};
    }
    echo->size = options->payload_size;
    echo->total = echo->before.size + echo->size + echo->after.size;
    echo->seed = load_mix64(options->seed + 1);
    echo->pool = uvhttp__malloc(size);
    if (!echo->pool) return false;
    fill_pool(echo->pool, size, echo->seed, options->scheme != LOAD_TCP);
    echo->masked = echo->pool;
    if (options->scheme != LOAD_WS) return true;
    echo->masked = uvhttp__malloc(size);
    if (!echo->masked) return false;
    memcpy(echo->masked, echo->pool, size);
    load_ws_mask(echo->masked, size);
    return true;
}

/* --- requests --- */

static int no_memory(FILE *err) {
    fputs("uvhttp-load: out of memory\n", err);
    return LOAD_ERROR;
}

static bool has_header(const load_options_t *options, const char *name) {
    size_t size = strlen(name);
    for (size_t i = 0; i < options->header_count; i++)
        if (strncasecmp(options->headers[i], name, size) == 0 && options->headers[i][size] == ':') return true;
    return false;
}

static void write_request(FILE *out, const load_options_t *options, uvhttp_str_t method, uvhttp_str_t target) {
    fprintf(out, "%.*s %.*s HTTP/1.1\r\n", (int)method.size, method.data, (int)target.size, target.data);
    if (!has_header(options, "host")) fprintf(out, "Host: %s\r\n", options->authority);
    for (size_t i = 0; i < options->header_count; i++) fprintf(out, "%s\r\n", options->headers[i]);
    if (options->scheme == LOAD_WS) fputs(LOAD_WS_HEADERS, out);
    size_t body_size = options->echo ? echo_total(options) : options->body_size;
    if (options->body || options->echo) fprintf(out, "Content-Length: %zu\r\n", body_size);
    fputs("\r\n", out);
    if (options->body && !options->echo) fwrite(options->body, 1, options->body_size, out);
}

/* Finishes a request whose bytes stand in `once`, which is the C library's. */
static bool set_copies(load_request_t *request, const char *once, size_t size, uint32_t pipeline) {
    size_t copies = COPIES_SIZE_MAX / size;
    request->copies = copies < 1 ? 1 : copies > pipeline ? pipeline : (uint32_t)copies;
    request->size = size;
    request->data = uvhttp__malloc(size * request->copies);
    if (!request->data) return false;
    for (uint32_t i = 0; i < request->copies; i++) memcpy(request->data + i * size, once, size);
    return true;
}

static bool make_request(const load_options_t *options, load_request_t *request, uvhttp_str_t method,
                         uvhttp_str_t target) {
    char *once = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&once, &size);
    if (!out) return false;
    write_request(out, options, method, target);
    bool ok = fclose(out) == 0 && set_copies(request, once, size, options->pipeline);
    free(once);
    return ok;
}

static size_t frame_max(const load_h2_request_t *request) {
    size_t max = 0;
    for (int table = 0; table < LOAD_H2_TABLES; table++) {
        if (request->first[table].size > max) max = request->first[table].size;
        if (request->later[table].size > max) max = request->later[table].size;
    }
    return max;
}

static int make_h2_request(load_plan_t *plan, load_request_t *request, uvhttp_str_t method, uvhttp_str_t target) {
    int code = load_h2_request_init(&request->h2, plan->options, method, target, plan->h2_body_size);
    size_t size = frame_max(&request->h2);
    if (size > plan->h2_head_max) plan->h2_head_max = size;
    return code;
}

static char *make_line(uvhttp_str_t method, uvhttp_str_t target) {
    size_t size = method.size + target.size + sizeof " ";
    char *line = uvhttp__malloc(size);
    if (line) snprintf(line, size, "%.*s %.*s", (int)method.size, method.data, (int)target.size, target.data);
    return line;
}

/* Returns 0 or an exit code, after a line on `err`. */
static int add_request(load_plan_t *plan, uvhttp_str_t method, uvhttp_str_t target, FILE *err) {
    const load_options_t *options = plan->options;
    load_request_t *more = uvhttp__realloc(plan->requests, (plan->request_count + 1) * sizeof *more);
    if (!more) return no_memory(err);
    plan->requests = more;
    load_request_t *request = &more[plan->request_count++];
    *request =
        (load_request_t){.is_head = uvhttp__str_equal(method, UVHTTP__STR("HEAD")), .line = make_line(method, target)};
    int code = !request->line                                   ? UVHTTP_E_NOMEM
               : options->http2                                 ? make_h2_request(plan, request, method, target)
               : make_request(options, request, method, target) ? 0
                                                                : UVHTTP_E_NOMEM;
    if (code != UVHTTP_E_HTTP_HEADERS_TOO_LARGE) return code == 0 ? 0 : no_memory(err);
    fputs("uvhttp-load: the fields of a request are more than a frame of HTTP/2 holds (16384 bytes): fewer, or shorter "
          "ones (-H)\n",
          err);
    return LOAD_USAGE;
}

/* tcp, ws: what stands before each message. */
static bool add_message(load_plan_t *plan) {
    char head[LOAD_WS_HEAD_MAX];
    plan->requests = uvhttp__calloc(1, sizeof *plan->requests);
    if (!plan->requests) return false;
    plan->request_count = 1;
    if (plan->options->scheme == LOAD_TCP) return true;
    return set_copies(plan->requests, head, load_ws_write_head(head, plan->options->payload_size), 1);
}

/* "[METHOD] /target", where an absolute URL stands for its target. */
static int add_line(load_plan_t *plan, uvhttp_str_t line, unsigned number, FILE *err) {
    const load_options_t *options = plan->options;
    const char *space = memchr(line.data, ' ', line.size);
    uvhttp_str_t method = uvhttp__str_from(options->method), target = line;
    if (space) {
        method = (uvhttp_str_t){line.data, (size_t)(space - line.data)};
        target = uvhttp__str_trim((uvhttp_str_t){space, line.size - method.size});
    }
    bool ok = uvhttp__valid_header_name(method) && target.data[0] == '/';
    for (size_t i = 0; i < target.size; i++) ok = ok && target.data[i] > ' ' && target.data[i] <= '~';
    if (!ok) {
        fprintf(err, "uvhttp-load: %s:%u: expected \"[METHOD] /target\"\n", options->urls_path, number);
        return LOAD_USAGE;
    }
    return add_request(plan, method, target, err);
}

static int add_file(load_plan_t *plan, FILE *err) {
    const char *path = plan->options->urls_path;
    size_t size;
    char *text = load_read_file(path, &size);
    if (!text) {
        fprintf(err, "uvhttp-load: --urls %s: cannot be read: %s\n", path, strerrordesc_np(errno));
        return LOAD_USAGE;
    }
    int code = 0;
    unsigned number = 1;
    for (char *at = text; code == 0 && *at; number++) {
        size_t length = strcspn(at, "\n");
        uvhttp_str_t line = {at, length};
        if (length > 0 && at[length - 1] == '\r') line.size--;
        line = uvhttp__str_trim(line);
        if (line.size > 0 && line.data[0] != '#') code = add_line(plan, line, number, err);
        at += length + (at[length] == '\n');
    }
    uvhttp__free(text);
    if (code == 0 && plan->request_count == 0) {
        fprintf(err, "uvhttp-load: --urls %s: no target in it\n", path);
        code = LOAD_USAGE;
    }
    return code;
}

int load_plan_init(load_plan_t *plan, const load_options_t *options, FILE *err) {
    *plan = (load_plan_t){.options = options};
    if ((options->echo || options->scheme != LOAD_HTTP) && !make_echo(plan)) return no_memory(err);
    if (options->http2) plan->h2_body_size = options->echo ? echo_total(options) : options->body_size;
    if (options->urls_path) return add_file(plan, err);
    uvhttp_str_t method = uvhttp__str_from(options->method), target = uvhttp__str_from(options->target);
    if (options->scheme == LOAD_HTTP) return add_request(plan, method, target, err);
    bool ok = add_message(plan);
    if (ok && options->scheme == LOAD_WS) ok = make_request(options, &plan->handshake, method, target);
    return ok ? 0 : no_memory(err);
}

void load_plan_deinit(load_plan_t *plan) {
    for (size_t i = 0; i < plan->request_count; i++) {
        uvhttp__free(plan->requests[i].line);
        uvhttp__free(plan->requests[i].data);
        load_h2_request_deinit(&plan->requests[i].h2);
    }
    uvhttp__free(plan->requests);
    if (plan->echo.masked != plan->echo.pool) uvhttp__free(plan->echo.masked);
    uvhttp__free(plan->echo.pool);
    plan->echo.pool = plan->echo.masked = NULL;
    uvhttp__free(plan->handshake.data);
    plan->requests = NULL;
    plan->request_count = 0;
}

/* --- the target --- */

bool load_is_loopback(const uvhttp__address_t *address) {
    switch (address->any.sa_family) {
        case AF_UNIX: return true;
        case AF_INET: return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
        case AF_INET6:
            if (IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr)) return address->v6.sin6_addr.s6_addr[12] == 127;
            return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
        default: return false;
    }
}

/* Connects and hangs up. Returns 0 or an errno. */
static int probe(const uvhttp__endpoint_t *endpoint, uint64_t timeout_ns) {
    int fd = socket(endpoint->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    int error = connect(fd, &endpoint->address.any, endpoint->address_size) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        socklen_t size = sizeof error;
        if (poll(&wait, 1, (int)(timeout_ns / 1000000)) < 1)
            error = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
    }
    close(fd);
    return error;
}

static int not_there(const load_plan_t *plan, int error, FILE *err) {
    fprintf(err, "uvhttp-load: %s: %s: start the server, or correct the address\n", plan->address,
            strerrordesc_np(error));
    return LOAD_MISSING;
}

static int find_unix(load_plan_t *plan, FILE *err) {
    char text[UVHTTP__ADDRESS_TEXT_MAX];
    const char *path = plan->options->unix_socket;
    int size = snprintf(text, sizeof text, "unix:%s", path);
    if (size >= (int)sizeof text || uvhttp__endpoint_parse(text, &plan->endpoint) != 0) {
        fprintf(err, "uvhttp-load: --unix-socket %s: not a path of a socket; it has at most 107 bytes\n", path);
        return LOAD_USAGE;
    }
    uvhttp__address_format(&plan->endpoint.address, plan->endpoint.address_size, plan->address);
    int error = probe(&plan->endpoint, plan->options->connect_timeout_ns);
    return error ? not_there(plan, error, err) : 0;
}

static void set_endpoint(load_plan_t *plan, const struct addrinfo *info) {
    plan->endpoint = (uvhttp__endpoint_t){.address_size = info->ai_addrlen, .fd = -1};
    memcpy(&plan->endpoint.address, info->ai_addr, info->ai_addrlen);
    uvhttp__address_format(&plan->endpoint.address, info->ai_addrlen, plan->address);
}

static int choose_address(load_plan_t *plan, const struct addrinfo *list, FILE *err) {
    const load_options_t *options = plan->options;
    for (const struct addrinfo *info = list; info; info = info->ai_next) {
        set_endpoint(plan, info);
        if (options->allow_remote || load_is_loopback(&plan->endpoint.address)) continue;
        fprintf(err, "uvhttp-load: %s is %s, which is not this machine: --allow-remote if it is yours to load\n",
                options->host, plan->address);
        return LOAD_USAGE;
    }
    int error = 0;
    for (const struct addrinfo *info = list; info; info = info->ai_next) {
        set_endpoint(plan, info);
        error = probe(&plan->endpoint, options->connect_timeout_ns);
        if (error == 0) return 0;
    }
    return not_there(plan, error, err);
}

int load_plan_find_target(load_plan_t *plan, FILE *err) {
    const load_options_t *options = plan->options;
    if (options->unix_socket) return find_unix(plan, err);
    struct addrinfo *list, wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int error = getaddrinfo(options->host, options->port, &wanted, &list);
    if (error != 0) {
        fprintf(err, "uvhttp-load: %s: %s: correct the name\n", options->host, gai_strerror(error));
        return LOAD_MISSING;
    }
    int code = choose_address(plan, list, err);
    freeaddrinfo(list);
    return code;
}
