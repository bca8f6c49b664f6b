/* Owns: the header fields by which browsers protect a page. May include: message, base, obs. */
#include <stdio.h>
#include <uvhttp/security_headers.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "base/sized.h"
#include "message/message.h"
#include "middleware/middleware.h"

#define NAME "security_headers"
#define FIELD_MAX 5
#define POLICY_SIZE_MAX 8192      /* bytes of a Content-Security-Policy */
#define HSTS_MAX_AGE_MAX 63072000 /* two years */
#define HSTS_PRELOAD_MIN 31536000 /* what the lists in browsers ask for */

typedef struct field {
    const char *name;
    uvhttp_str_t value; /* ours */
} field_t;

typedef struct headers {
    size_t count;
    field_t fields[FIELD_MAX];
} headers_t;

static void destroy(void *user) {
    headers_t *headers = user;
    for (size_t i = 0; i < headers->count; i++) uvhttp__free((char *)headers->fields[i].value.data);
    uvhttp__free(headers);
}

/* --- requests --- */

/* At the end, so that what the handler has set is seen. */
static void finish(uvhttp_response_t *res, void *user) {
    const headers_t *headers = user;
    for (size_t i = 0; i < headers->count; i++) {
        const field_t *field = &headers->fields[i];
        if (!uvhttp_response_header_get(res, field->name).data)
            (void)uvhttp__response_put_header(res, uvhttp__str_from(field->name), field->value, false);
    }
}

static uvhttp_flow_t run(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    int status = uvhttp_response_on_finish(res, finish, user);
    return status == UVHTTP_OK ? UVHTTP_NEXT : uvhttp__middleware_unavailable(res);
}

static void on_refused(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    (void)uvhttp_response_on_finish(res, finish, user);
}

/* --- options --- */

/* Whether a policy has a directive of this name (CSP section 2.2.1: directives end in ';', names in white space). */
static bool has_directive(const char *policy, uvhttp_str_t name) {
    for (const char *at = policy; *at;) {
        at += strspn(at, "; \t");
        uvhttp_str_t found = {at, strcspn(at, "; \t")};
        if (uvhttp__str_equal_nocase(found, name)) return true;
        at += strcspn(at, ";");
    }
    return false;
}

static bool known_policy(uvhttp_str_t item) {
    static const char *const known[] = {
        "no-referrer",   "no-referrer-when-downgrade",      "origin",    "origin-when-cross-origin", "same-origin",
        "strict-origin", "strict-origin-when-cross-origin", "unsafe-url"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (uvhttp__str_equal(item, uvhttp__str_from(known[i]))) return true;
    return false;
}

static const char *wrong_hsts(const uvhttp_security_headers_options_t *options) {
    if (options->hsts_max_age > HSTS_MAX_AGE_MAX) return "hsts_max_age is out of range: expected 0..63072000 seconds";
    if (options->hsts_max_age == 0 && (options->hsts_include_subdomains || options->hsts_preload))
        return "hsts_include_subdomains or hsts_preload is set without hsts_max_age: set it, in seconds";
    if (options->hsts_preload && (!options->hsts_include_subdomains || options->hsts_max_age < HSTS_PRELOAD_MIN))
        return "hsts_preload needs hsts_include_subdomains and an hsts_max_age of at least 31536000 seconds";
    return NULL;
}

/* What is wrong with the options, or NULL. */
static const char *wrong(const uvhttp_security_headers_options_t *options) {
    const char *frame = options->frame_options, *policy = options->content_security_policy;
    if (frame && strcmp(frame, "") != 0 && strcmp(frame, "DENY") != 0 && strcmp(frame, "SAMEORIGIN") != 0)
        return "frame_options is unknown: expected \"DENY\", \"SAMEORIGIN\" or \"\"; for single origins use "
               "frame-ancestors in content_security_policy";
    uvhttp_str_t rest = uvhttp__str_from(options->referrer_policy), item;
    while (uvhttp__list_next(&rest, &item))
        if (!known_policy(item))
            return "referrer_policy has an unknown policy: expected those of Referrer Policy section 3, in lower case";
    if (policy && (strlen(policy) > POLICY_SIZE_MAX || !uvhttp__valid_header_value(uvhttp__str_from(policy))))
        return "content_security_policy is longer than 8192 bytes or has a control character: write it in one line";
    if (options->content_security_policy_report_only && (!policy || !*policy))
        return "content_security_policy_report_only is set without content_security_policy";
    return wrong_hsts(options);
}

/* --- making it --- */

/* value "": the field is left out. */
static bool add(headers_t *headers, const char *name, const char *value) {
    size_t size = strlen(value);
    if (size == 0) return true;
    char *copy = uvhttp__malloc(size);
    if (!copy) return false;
    headers->fields[headers->count++] = (field_t){name, {memcpy(copy, value, size), size}};
    return true;
}

static bool fill(headers_t *headers, const uvhttp_security_headers_options_t *options) {
    const char *policy = options->content_security_policy ? options->content_security_policy : "";
    bool report_only = options->content_security_policy_report_only;
    bool framed = !report_only && has_directive(policy, UVHTTP__STR("frame-ancestors"));
    const char *frame = options->frame_options ? options->frame_options : framed ? "" : "DENY";
    const char *referrer = options->referrer_policy ? options->referrer_policy : "strict-origin-when-cross-origin";
    char hsts[80] = "";
    if (options->hsts_max_age > 0)
        snprintf(hsts, sizeof hsts, "max-age=%u%s%s", (unsigned)options->hsts_max_age,
                 options->hsts_include_subdomains ? "; includeSubDomains" : "",
                 options->hsts_preload ? "; preload" : "");
    return add(headers, "X-Content-Type-Options", options->allow_sniffing ? "" : "nosniff") &&
           add(headers, "X-Frame-Options", frame) && add(headers, "Referrer-Policy", referrer) &&
           add(headers, report_only ? "Content-Security-Policy-Report-Only" : "Content-Security-Policy", policy) &&
           add(headers, "Strict-Transport-Security", hsts);
}

uvhttp_middleware_t uvhttp_security_headers_sized(const uvhttp_security_headers_options_t *options,
                                                  size_t options_size) {
    uvhttp_security_headers_options_t full;
    if (!uvhttp__sized_read(&full, sizeof full, options, options_size))
        return uvhttp__middleware_refused(NAME, "%s", UVHTTP__SIZED_NEWER);
    options = &full;
    const char *why = wrong(options);
    if (why) return uvhttp__middleware_refused(NAME, "%s", why);
    headers_t *headers = uvhttp__calloc(1, sizeof *headers);
    if (!headers || !fill(headers, options)) {
        if (headers) destroy(headers);
        return uvhttp__middleware_refused(NAME, "out of memory");
    }
    return (uvhttp_middleware_t){.run = run, .user = headers, .destroy = destroy, .on_refused = on_refused};
}
