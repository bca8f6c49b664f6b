/* What serve and check share: settings, and the one start, which check makes a dry run. */
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
/* Serves a plan, or finds what serving it would refuse, and says nothing else (uvhttp_server_dry_run). Returns the exit
 * status of the program; why has been said. */
int serve_start(settings_t *settings, bool dry_run);

#endif
