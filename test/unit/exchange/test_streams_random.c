/* Owns: a hundred streams at once, in an order that comes from a seed: bodies and windows come in pieces, clients
 * cancel, responses are cut. A model knows each byte of each stream. On each engine; UVHTTP_TEST_SEED=n repeats one
 * seed. */
/* Needs: coroutines. */
#include "support/fake_script.h"
#include "support/random.h"

#define STREAMS 100
#define SEEDS (FAKE_ROUTES_IDS / STREAMS)

typedef struct stream {
    fake_mode_t mode;
    unsigned id;
    size_t size;
    char path[64], *body;
    bool cut; /* the client has cancelled it, or it was reset */

    fake_stream_t *fake;
} stream_t;

typedef struct run {
    fake_connection_t *connection;
    test_random_t random;
    uvhttp__post_t post;
    stream_t streams[STREAMS];
    unsigned first_id; /* handlers of the seed before may end still */
    int started, most_at_once;
    atomic_bool done;
} run_t;

static void start_one(run_t *run) {
    stream_t *stream = &run->streams[run->started];
    do stream->mode = (fake_mode_t)test_random_below(&run->random, FAKE_MODE_COUNT);
    while (!fake_mode_works(stream->mode));
    stream->id = run->first_id + (unsigned)run->started++;
    stream->size = test_random_below(&run->random, 4) == 0 ? 0 : test_random_below(&run->random, 40000);
    size_t body_size = test_random_below(&run->random, 4) == 0 ? 0 : test_random_below(&run->random, 40000);
    snprintf(stream->path, sizeof stream->path, "/%s/%u/%zu", fake_mode_names[stream->mode], stream->id, stream->size);
    stream->body = fake_bytes(fake_byte_in, stream->id, body_size);
    const fake_request_t request = {.method = test_random_below(&run->random, 8) ? UVHTTP_POST : UVHTTP_HEAD,
                                    .path = stream->path,
                                    .body = stream->body,
                                    .body_size = body_size,
                                    .has_body = body_size > 0 || test_random_below(&run->random, 2),
                                    .size_is_known = test_random_below(&run->random, 2),
                                    .at_once = test_random_below(&run->random, 2)};
    stream->fake = fake_new(run->connection, &request);
    if (test_random_below(&run->random, 4)) stream->fake->receive_window = 0;
    if (test_random_below(&run->random, 4)) stream->fake->send_window = 0;
    (void)fake_start(stream->fake);
}

static void act(run_t *run, stream_t *stream) {
    if (!stream->fake->exchange) return;
    uint64_t bytes = 1 + test_random_below(&run->random, 8000);
    uint64_t what = test_random_below(&run->random, 200);
    if (what == 0) {
        stream->cut = true;
        fake_abort(stream->fake, UVHTTP_E_ABORTED);
    } else if (what == 1) {
        stream->cut = true;
        stream->fake->resets++; /* by the protocol itself; the abort comes with the next window */
        stream->fake->reset_code = UVHTTP_E_ABORTED;
        fake_open_send(stream->fake, 0);
    } else if (what % 2) {
        fake_open_receive(stream->fake, bytes);
    } else {
        fake_open_send(stream->fake, bytes);
    }
}

/* A few steps of an iteration of the loop. */
static void step(uvhttp__post_t *post) {
    run_t *run = UVHTTP__CONTAINER_OF(post, run_t, post);
    int live = 0;
    for (int i = 0; i < 40; i++) {
        if (run->started < STREAMS && test_random_below(&run->random, 2)) start_one(run);
        if (run->started > 0) act(run, &run->streams[test_random_below(&run->random, (uint64_t)run->started)]);
    }
    for (int i = 0; i < run->started; i++)
        if (run->streams[i].fake->exchange || run->streams[i].fake->posted) live++;
    if (live > run->most_at_once) run->most_at_once = live;
    if (run->started == STREAMS && live == 0)
        atomic_store(&run->done, true);
    else
        uvhttp__loop_post(run->connection->loop->tcp->io, &run->post);
}

static void begin(void *arg) {
    run_t *run = arg;
    run->post.run = step;
    uvhttp__loop_post(run->connection->loop->tcp->io, &run->post);
}

static void check(uint64_t seed, const stream_t *stream) {
    const fake_stream_t *fake = stream->fake;
    size_t size = fake->request.method == UVHTTP_HEAD ? 0 : stream->size;
#define CHECK(condition)                                                                                               \
    if (!(condition)) fail_msg("seed %llu, %s: " #condition, (unsigned long long)seed, stream->path)
    CHECK(fake->finished + fake->aborted == 1);
    CHECK(fake->finished == 1 || stream->cut);
    CHECK(atomic_load(&fake_dones[stream->id]) <= 1);
    CHECK(!fake->responded || fake->status == 200);
    CHECK(fake->body_consumed <= size);
    for (size_t i = 0; i < fake->body_consumed; i++) CHECK(fake->body[i] == fake_byte_out(stream->id, i));
    if (fake->aborted) return;
    CHECK(fake->body_consumed == size);
    CHECK(!fake->missized);
    CHECK(atomic_load(&fake_dones[stream->id]) == 1);
#undef CHECK
}

static void drop_all(void *arg) {
    run_t *run = arg;
    for (int i = 0; i < STREAMS; i++) {
        fake_free(run->streams[i].fake);
        free(run->streams[i].body);
    }
}

static void run_seed(fake_connection_t *connection, uint64_t seed, unsigned first_id) {
    run_t *run = calloc(1, sizeof *run);
    assert_non_null(run);
    run->random.state = seed;
    run->connection = connection;
    run->first_id = first_id;
    fake_call(run->connection, begin, run);
    for (int tries = LIMIT_SECONDS * 1000; !atomic_load(&run->done); tries--) {
        if (tries == 0) fail_msg("seed %llu: some streams do not end", (unsigned long long)seed);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (run->most_at_once < STREAMS / 4) fail_msg("seed %llu: few streams at once", (unsigned long long)seed);
    for (int i = 0; i < STREAMS; i++) check(seed, &run->streams[i]);
    fake_call(run->connection, drop_all, run);
    free(run);
}

static void test_a_hundred_streams_in_any_order_keep_their_bytes(void **state) {
    serving_t *serving = *state;
    const char *given = getenv("UVHTTP_TEST_SEED");
    serving->config.write_queue_max = 8192;
    serving->config.spool_memory = 4096;
    serving_make(serving);
    fake_routes_add(serving);
    serving_start(serving);
    fake_connection_t *connection = fake_open(serving);
    fake_routes_reset();
    if (given) run_seed(connection, strtoull(given, NULL, 10), 0);
    for (unsigned seed = 1; seed <= SEEDS && !given; seed++) run_seed(connection, seed, (seed - 1) * STREAMS);
    serving_stop(serving);
    fake_close(connection);
    for (int i = 0; i < FAKE_ROUTES_IDS; i++) assert_in_range(fake_dones[i], 0, 1);
    assert_int_equal(fake_held, 0);
    assert_int_equal(fake_wrong_bytes, 0);
}

int main(void) {
    return RUN_ON_EACH(test_a_hundred_streams_in_any_order_keep_their_bytes);
}
