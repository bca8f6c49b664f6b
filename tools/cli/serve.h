/* What serve, check and explain share: settings, and a server that is made of them but listens nowhere. */
#ifndef UVHTTP_CLI_SERVE_H
#define UVHTTP_CLI_SERVE_H

#include "cli/plan.h"
#include "support/options.h"

typedef struct settings {
    const char *directory, *address, *access_log;
    unsigned long port, http_port;
    option_list_t hosts;
    bool tls, any_host, no_listing, no_symlinks, open;
    int log_format;
    site_t site; /* of the command line; the defaults of those in a file */
    plan_t plan;
    uvhttp_server_config_t config;
} settings_t;

/* Settings as they are without options. */
void serve_initial(settings_t *settings);
/* Sites and addresses of the file, if it has any, else of the options. False: problems, which have been said. */
bool serve_plan(settings_t *settings, const char *file);
/* A server with everything but addresses; NULL: why has been said. */
uvhttp_server_t *serve_new(settings_t *settings);
/* A certificate of the configuration, or one that is made for the run; NULL: why has been logged. */
uvhttp_tls_t *serve_tls(const settings_t *settings);
bool serve_has_tls(const settings_t *settings);

#endif
