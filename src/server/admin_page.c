/* Owns: the dashboard, a page that is compiled in: admin_page.h is made from admin_page.html by
 * cmake/write_admin_page.cmake, with the hashes that allow its script and its style and no others. May include:
 * everything. */
#include "server/admin_internal.h"

#include "admin_page.h"

static_assert(sizeof uvhttp__admin_page_bytes <= 40960, "the page stays small");

#define POLICY                                                                                                         \
    "default-src 'none'; script-src '" UVHTTP__ADMIN_PAGE_SCRIPT "'; style-src '" UVHTTP__ADMIN_PAGE_STYLE             \
    "'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

void uvhttp__admin_get_page(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    (void)uvhttp_response_header(res, "Content-Security-Policy", POLICY);
    (void)uvhttp_response_header(res, "Cross-Origin-Resource-Policy", "same-origin");
    (void)uvhttp_response_header(res, "Cache-Control", "no-cache");
    (void)uvhttp_response_send_static(res, 200, "text/html; charset=utf-8", uvhttp__admin_page_bytes,
                                      sizeof uvhttp__admin_page_bytes);
}
