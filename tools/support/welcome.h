/* The page that a newcomer sees first: what this server has, as links. */
#ifndef UVHTTP_SUPPORT_WELCOME_H
#define UVHTTP_SUPPORT_WELCOME_H

#include <uvhttp.h>

/* Adds GET /welcome. docs: a directory of Markdown that is served below /docs/, or NULL. admin: the address of the
 * dashboard, or "". Call it before the server listens; what cannot be added, listen reports. */
void welcome_add(uvhttp_server_t *server, const char *docs, const char *admin);

#endif
