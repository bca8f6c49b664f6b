#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/list.h"

typedef struct item {
    int value;
    uvhttp__list_t link;
} item_t;

static void expect(const uvhttp__list_t *head, const char *values) {
    const uvhttp__list_t *node = head->next;
    for (; *values; values++, node = node->next) {
        assert_ptr_not_equal(node, head);
        assert_int_equal(UVHTTP__CONTAINER_OF(node, item_t, link)->value, *values);
        assert_ptr_equal(node->next->prev, node);
        assert_ptr_equal(node->prev->next, node);
    }
    assert_ptr_equal(node, head);
}

static item_t items[6];
static uvhttp__list_t head, other;

static int setup(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        items[i].value = 'a' + i;
        uvhttp__list_init(&items[i].link);
    }
    uvhttp__list_init(&head);
    uvhttp__list_init(&other);
    return 0;
}

static void test_push_and_pop_keep_order(void **state) {
    (void)state;
    assert_true(uvhttp__list_empty(&head));
    assert_null(uvhttp__list_pop_front(&head));
    assert_null(uvhttp__list_front(&head));
    uvhttp__list_push_back(&head, &items[1].link);
    uvhttp__list_push_back(&head, &items[2].link);
    uvhttp__list_push_front(&head, &items[0].link);
    expect(&head, "abc");
    assert_ptr_equal(uvhttp__list_front(&head), &items[0].link);
    assert_ptr_equal(uvhttp__list_pop_front(&head), &items[0].link);
    assert_false(uvhttp__list_linked(&items[0].link));
    expect(&head, "bc");
}

static void test_remove_detaches_and_may_be_repeated(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) uvhttp__list_push_back(&head, &items[i].link);
    assert_true(uvhttp__list_linked(&items[1].link));
    uvhttp__list_remove(&items[1].link);
    assert_false(uvhttp__list_linked(&items[1].link));
    uvhttp__list_remove(&items[1].link);
    expect(&head, "ac");
    uvhttp__list_remove(&items[0].link);
    uvhttp__list_remove(&items[2].link);
    assert_true(uvhttp__list_empty(&head));
}

static void test_splice_moves_all_to_the_back(void **state) {
    (void)state;
    uvhttp__list_splice(&head, &other);
    expect(&head, "");
    for (int i = 2; i < 5; i++) uvhttp__list_push_back(&other, &items[i].link);
    uvhttp__list_splice(&head, &other);
    expect(&head, "cde");
    assert_true(uvhttp__list_empty(&other));
    uvhttp__list_push_back(&other, &items[0].link);
    uvhttp__list_push_back(&other, &items[1].link);
    uvhttp__list_splice(&other, &head);
    expect(&other, "abcde");
    assert_true(uvhttp__list_empty(&head));
}

static void test_foreach_bears_the_removal_of_its_node(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) uvhttp__list_push_back(&head, &items[i].link);
    int seen = 0;
    uvhttp__list_t *node, *after;
    UVHTTP__LIST_FOREACH_SAFE(node, after, &head) {
        seen++;
        if (UVHTTP__CONTAINER_OF(node, item_t, link)->value % 2) uvhttp__list_remove(node);
    }
    assert_int_equal(seen, 6);
    expect(&head, "bdf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_push_and_pop_keep_order, setup),
        cmocka_unit_test_setup(test_remove_detaches_and_may_be_repeated, setup),
        cmocka_unit_test_setup(test_splice_moves_all_to_the_back, setup),
        cmocka_unit_test_setup(test_foreach_bears_the_removal_of_its_node, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
