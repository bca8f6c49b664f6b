#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>

#include "base/mpsc.h"
#include "support/run.h"

static void test_push_says_whether_the_queue_was_empty(void **state) {
    (void)state;
    uvhttp__mpsc_t queue;
    uvhttp__mpsc_node_t nodes[2];
    uvhttp__mpsc_init(&queue);
    assert_true(uvhttp__mpsc_empty(&queue));
    assert_null(uvhttp__mpsc_take(&queue));
    assert_true(uvhttp__mpsc_push(&queue, &nodes[0]));
    assert_false(uvhttp__mpsc_push(&queue, &nodes[1]));
    assert_false(uvhttp__mpsc_empty(&queue));
    assert_ptr_equal(uvhttp__mpsc_take(&queue), &nodes[0]);
    assert_true(uvhttp__mpsc_empty(&queue));
    assert_true(uvhttp__mpsc_push(&queue, &nodes[0]));
}

static void test_take_gives_all_oldest_first(void **state) {
    (void)state;
    uvhttp__mpsc_t queue;
    uvhttp__mpsc_node_t nodes[100], *node;
    uvhttp__mpsc_init(&queue);
    for (int i = 0; i < 100; i++) uvhttp__mpsc_push(&queue, &nodes[i]);
    node = uvhttp__mpsc_take(&queue);
    for (int i = 0; i < 100; i++, node = node->next) assert_ptr_equal(node, &nodes[i]);
    assert_null(node);
}

/* --- several producers; the consumer sleeps on the semaphore whenever the queue was empty --- */

enum { PRODUCERS = 4, MESSAGES = 20000 };

typedef struct message {
    uvhttp__mpsc_node_t node;
    int producer;
    int number;
} message_t;

static uvhttp__mpsc_t stress;
static sem_t wake;

static void *produce(void *arg) {
    for (int i = 0; i < MESSAGES; i++) {
        message_t *message = malloc(sizeof *message);
        *message = (message_t){.producer = (int)(intptr_t)arg, .number = i};
        if (uvhttp__mpsc_push(&stress, &message->node)) sem_post(&wake);
    }
    return NULL;
}

static void test_nothing_is_lost_or_out_of_order_and_every_wake_up_comes(void **state) {
    (void)state;
    uvhttp__mpsc_init(&stress);
    assert_int_equal(sem_init(&wake, 0, 0), 0);
    pthread_t threads[PRODUCERS];
    for (intptr_t i = 0; i < PRODUCERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, produce, (void *)i), 0);
    int next[PRODUCERS] = {0}, received = 0;
    while (received < PRODUCERS * MESSAGES) {
        while (sem_wait(&wake) != 0) continue; /* a lost wake-up hangs here and the test times out */
        uvhttp__mpsc_node_t *after, *node = uvhttp__mpsc_take(&stress);
        assert_non_null(node); /* each wake-up is for a queue that had become non-empty */
        for (; node; node = after, received++) {
            after = node->next;
            message_t *message = (message_t *)node;
            assert_int_equal(message->number, next[message->producer]++);
            free(message);
        }
    }
    for (int i = 0; i < PRODUCERS; i++) pthread_join(threads[i], NULL);
    assert_true(uvhttp__mpsc_empty(&stress));
    sem_destroy(&wake);
}

int main(void) {
    return RUN_TESTS(test_push_says_whether_the_queue_was_empty, test_take_gives_all_oldest_first,
                     test_nothing_is_lost_or_out_of_order_and_every_wake_up_comes);
}
