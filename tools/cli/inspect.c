/* Owns: the commands check and explain. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/serve.h"

/* --- check --- */

static settings_t checked;

static int check_whole(const char *file) {
    checked.access_log = "off";
    if (!serve_plan(&checked, file) || serve_start(&checked, true) != 0) return 1;
    printf("%s: ok, %zu %s, %zu %s\n", file, checked.plan.listener_count,
           checked.plan.listener_count == 1 ? "address" : "addresses", checked.plan.site_count,
           checked.plan.site_count == 1 ? "site" : "sites");
    return 0;
}

int check_run(char **argv) {
    char message[8192];
    if (!argv[1] || argv[2] || (argv[1][0] == '-' && argv[1][1])) {
        fputs("uvhttp check: expected the name of a configuration file: uvhttp check server.yaml\n", stderr);
        return 2;
    }
    serve_initial(&checked);
    if (options_load(&checked.config, argv[1], plan_names, message, sizeof message) != UVHTTP_OK) {
        fprintf(stderr, "%s\n", message);
        checked.plan.file = argv[1];
        plan_read_file(&checked.plan, &checked.site); /* says what else is wrong */
        return 1;
    }
    return check_whole(argv[1]);
}

/* --- explain --- */

static struct {
    uvhttp_server_config_t config;
    const char *field;
    bool changed;
    unsigned shown;
} explained;

static const option_t table[] = {
    {"--changed", OPTION_FLAG, &explained.changed, .letter = 'c', .common = true,
     .help = "only those that are not the default"},
};

const options_t explain_options = {.program = "uvhttp explain",
                                   .summary = "Shows each setting: its value, where it came from, what enforces it.",
                                   .table = table,
                                   .count = sizeof table / sizeof table[0],
                                   .config = &explained.config,
                                   .positional = &explained.field,
                                   .positional_name = "FIELD",
                                   .own = plan_names};

/* "keepalive-timeout" names "keepalive_timeout", too. */
static bool is_same(const char *name, const char *given) {
    for (; *name && *given; name++, given++)
        if (*name != *given && !(*name == '_' && *given == '-')) return false;
    return *name == *given;
}

static void show(const uvhttp_config_setting_t *setting, void *user) {
    bool color = *(bool *)user, changed = setting->source != UVHTTP_CONFIG_FROM_DEFAULT;
    if (explained.field && !is_same(setting->name, explained.field)) return;
    if (explained.changed && !changed) return;
    explained.shown++;
    const char *bold = color ? changed ? "\033[1;36m" : "\033[1m" : "", *dim = color ? "\033[2m" : "",
               *reset = color ? "\033[0m" : "";
    printf("%s%s%s = %s  %s(%s)%s\n", bold, setting->name, reset, *setting->value ? setting->value : "none", dim,
           setting->origin, reset);
    printf("    enforced by %s\n", setting->enforced_by ? setting->enforced_by : "nothing");
    printf("    %sexpected: %s; default: %s; a change needs a %s%s\n", dim, setting->expected,
           *setting->initial ? setting->initial : "none", setting->live ? "reload (SIGHUP)" : "restart", reset);
}

int explain_run(char **argv) {
    bool color = commands_has_color(STDOUT_FILENO);
    uvhttp_server_config_default(&explained.config);
    (void)options_parse(&explain_options, argv);
    uvhttp_server_config_explain(&explained.config, show, &color);
    if (explained.shown > 0) return 0;
    if (!explained.field) {
        puts("Every setting has its default.");
        return 0;
    }
    fprintf(stderr, "uvhttp explain: there is no field '%s'; uvhttp explain lists all\n", explained.field);
    return 2;
}
