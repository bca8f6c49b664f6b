#include "support/welcome.h"

#include <stdio.h>
#include <string.h>

static char page[8192];

static const char style[] =
    ":root{color-scheme:light dark;--b:#fff;--t:#1f2328;--m:#656d76;--l:#d8dee4;--a:#0757b8;--h:#f3f6f9}"
    "@media(prefers-color-scheme:dark){:root{--b:#0f1419;--t:#e4e8ec;--m:#95a0ab;--l:#2b333c;--a:#7db7ff;--h:#1a2129}}"
    "body{margin:0 auto;max-width:46rem;padding:2rem 1rem 3rem;background:var(--b);color:var(--t);"
    "font:1rem/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif}"
    "h1{margin:0;font-size:1.6rem}h2{margin:2rem 0 .5rem;font-size:1.05rem}p{color:var(--m);margin:.3rem 0 0}"
    "a{color:var(--a);text-decoration:none}a:hover{text-decoration:underline}"
    "nav{display:grid;grid-template-columns:repeat(auto-fit,minmax(10rem,1fr));gap:.75rem;margin-top:1.25rem}"
    "nav a{display:block;padding:.8rem 1rem;border:1px solid var(--l);border-radius:8px;font-weight:600}"
    "nav a:hover{background:var(--h);text-decoration:none}nav span{display:block;color:var(--m);font-weight:400;"
    "font-size:.9rem}ul{list-style:none;margin:0;padding:0}li{display:flex;flex-wrap:wrap;gap:0 1rem;padding:.4rem 0;"
    "border-bottom:1px solid var(--l)}li a,li b{flex:0 0 13rem;font-family:ui-monospace,\"DejaVu Sans Mono\",monospace;"
    "font-weight:400;font-size:.95rem}li span{color:var(--m)}";

static const struct {
    const char *path, *text;
} routes[] = {
    {"/", "13 bytes, the response that is measured"},
    {"/api", "JSON; POST and PUT send the body back"},
    {"/large/100kb", "100 KB of text; also 1kb, 10kb, 1mb"},
    {"/static/10kb.bin", "a file"},
    {"/count", "visits; also /count/worker, /count/coroutine"},
    {"/sleep200", "a response after 200 ms, which blocks nobody"},
    {"/config", "how it was built, and every setting in force"},
    {"/counters", "what the server has counted"},
};

/* Appends to the page, which is larger than all of it. */
static void add(const char *format, const char *a, const char *b) {
    size_t used = strlen(page);
    (void)snprintf(page + used, sizeof page - used, format, a, b);
}

static void send_page(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    (void)uvhttp_response_header(res, "Content-Security-Policy",
                                 "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'");
    (void)uvhttp_response_send_static(res, 200, "text/html; charset=utf-8", page, strlen(page));
}

static void add_links(bool docs, const char *admin) {
    bool is_url = *admin && strncmp(admin, "unix:", 5) != 0;
    add("<nav>%s%s", "", "");
    if (is_url) add("<a href=\"http://%s/\">Dashboard<span>live rates and latency</span></a>%s", admin, "");
    if (docs) {
        add("<a href=\"/docs/guide/getting_started.md\">Getting started<span>a server of your own in C</span></a>%s%s",
            "", "");
        add("<a href=\"/docs/guide/\">Guide<span>every feature, with code</span></a>%s%s", "", "");
    }
    add("<a href=\"/config\">Settings<span>in force, with defaults</span></a></nav>%s%s", "", "");
}

void welcome_add(uvhttp_server_t *server, const char *docs, const char *admin) {
    page[0] = '\0';
    add("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>uvhttp</title>"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><style>%s</style></head><body>%s",
        style, "");
    add("<h1>uvhttp %s works</h1><p>This is performance_test, the server of the benchmarks.</p>%s", uvhttp_version(),
        "");
    add_links(docs != NULL, admin);
    add("<h2>Routes to try</h2><ul>%s%s", "", "");
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        add("<li><a href=\"%s\">%s</a>", routes[i].path, routes[i].path);
        add("<span>%s</span></li>%s", routes[i].text, "");
    }
    add("<li><b>/ws</b><span>WebSocket echo</span></li></ul><h2>Your own files</h2>%s%s", "", "");
    add("<p><code>build/dist/bin/uvhttp serve DIR --open</code></p></body></html>\n%s%s", "", "");
    uvhttp_get(server, "/welcome", send_page, NULL);
#if UVHTTP_WITH_STATIC
    static const uvhttp_static_type_t types[] = {{"md", "text/plain; charset=utf-8"}, {NULL, NULL}};
    if (docs)
        (void)uvhttp_static(server, "/docs", docs,
                            &(uvhttp_static_options_t){.types = types, .list_directories = true});
#endif
}
