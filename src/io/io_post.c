/* Owns: what other threads post to a loop. May include: base, obs. */
#include "io/engine.h"

void uvhttp__posts_run(uvhttp__loop_t *loop) {
    uvhttp__mpsc_node_t *next, *node = uvhttp__mpsc_take(&loop->posts);
    for (; node; node = next) {
        next = node->next;
        uvhttp__post_t *post = UVHTTP__CONTAINER_OF(node, uvhttp__post_t, node);
        post->run(post);
    }
}

void uvhttp__loop_run_posts(uvhttp__loop_t *loop) {
    while (!uvhttp__mpsc_empty(&loop->posts)) uvhttp__posts_run(loop);
}

void uvhttp__loop_post(uvhttp__loop_t *loop, uvhttp__post_t *post) {
    if (uvhttp__mpsc_push(&loop->posts, &post->node)) loop->engine->wake(loop);
}
