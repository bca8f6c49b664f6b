#include "support/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void run_only_chosen(void) {
    const char *pattern = getenv("TEST_ONLY");
    if (pattern) cmocka_set_test_filter(pattern);
}

/* The caller frees it. */
static const char *name_of(const char *test, const char *variant) {
    char *name = NULL;
    int size = variant ? asprintf(&name, "%s (%s)", test, variant) : asprintf(&name, "%s", test);
    if (size < 0) abort();
    return name;
}

int run_group(const run_group_t *group, const char *names, const CMUnitTestFunction *tests, size_t count) {
    char *list = strdup(names), *rest = list;
    struct CMUnitTest *all = calloc(count * group->variant_count, sizeof *all), *next = all;
    if (!list || !all) abort();
    for (size_t i = 0; i < count; i++) {
        const char *test = strtok_r(i == 0 ? list : NULL, ", ", &rest);
        for (size_t j = 0; j < group->variant_count; j++) {
            const run_variant_t *variant = &group->variants[j];
            *next++ = (struct CMUnitTest){name_of(test, variant->name), tests[i], group->set_up, group->tear_down,
                                          variant->state};
        }
    }
    run_only_chosen();
    int failed = _cmocka_run_group_tests("tests", all, (size_t)(next - all), NULL, NULL);
    for (size_t i = 0; i < count * group->variant_count; i++) free((char *)(uintptr_t)all[i].name);
    free(all);
    free(list);
    return failed;
}
