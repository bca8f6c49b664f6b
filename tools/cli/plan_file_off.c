/* Needs: no_yaml. */
/* Owns: the absence of "listen" and "sites": this build reads no configuration files, and the library says so. */
#include "cli/plan.h"

const char *const plan_names[] = {NULL};

void plan_read_file(plan_t *plan, const site_t *initial) {
    (void)plan, (void)initial;
}
