/* Owns: tests of Basic and Bearer authentication: who passes, the responses to others, and options. */
/* Needs: middleware. */
#include <cmocka.h>
#include <uvhttp/auth.h>
#include <uvhttp/request_id.h>

#include "running.h"
#include "support/run.h"

#define LIST(...)                                                                                                      \
    .credentials = (const uvhttp_credential_t[]){__VA_ARGS__},                                                         \
    .credential_count = sizeof((const uvhttp_credential_t[]){__VA_ARGS__}) / sizeof(uvhttp_credential_t)
#define BASIC(...) uvhttp_basic_auth(&(uvhttp_basic_auth_options_t){__VA_ARGS__})
#define BEARER(...) uvhttp_bearer_auth(&(uvhttp_bearer_auth_options_t){__VA_ARGS__})

static const char basic_challenge[] = "WWW-Authenticate: Basic realm=\"Restricted\", charset=\"UTF-8\"\r\n";

static uvhttp_flow_t ask(uvhttp_middleware_t middleware, const char *authorization) {
    begin(UVHTTP_GET);
    if (authorization) exchange_field(&ex, "Authorization", authorization);
    return run(middleware);
}

/* base64 of a text, behind "Basic ". */
static const char *basic(const char *pair) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static char out[2000];
    size_t size = strlen(pair);
    char *at = out + sprintf(out, "Basic ");
    for (size_t i = 0; i < size; i += 3) {
        unsigned char three[3] = {(unsigned char)pair[i], i + 1 < size ? (unsigned char)pair[i + 1] : 0,
                                  i + 2 < size ? (unsigned char)pair[i + 2] : 0};
        *at++ = alphabet[three[0] >> 2];
        *at++ = alphabet[(three[0] & 3) << 4 | three[1] >> 4];
        *at++ = i + 1 < size ? alphabet[(three[1] & 15) << 2 | three[2] >> 6] : '=';
        *at++ = i + 2 < size ? alphabet[three[2] & 63] : '=';
    }
    *at = '\0';
    return out;
}

/* The whole response to who may not pass; the handler has not run, and no user is known. */
static void assert_401(uvhttp_flow_t flow, const char *expected) {
    assert_int_equal(flow, UVHTTP_STOP);
    assert_int_equal(uvhttp_response_status(&ex.res), 401);
    assert_string_equal(fields(), expected);
    assert_int_equal(ex.res.body.size, 13);
    assert_memory_equal(ex.res.body.data, "Unauthorized\n", 13);
    assert_null(uvhttp_auth_user(&ex.req).data);
}

static void assert_user(uvhttp_flow_t flow, const char *user) {
    assert_int_equal(flow, UVHTTP_NEXT);
    assert_str(uvhttp_auth_user(&ex.req), user);
    assert_int_equal(uvhttp_response_status(&ex.res), 0);
    assert_string_equal(fields(), "");
}

/* --- Basic --- */

static void test_basic_lets_the_listed_pass(void **state) {
    (void)state;
    uvhttp_middleware_t middleware =
        BASIC(LIST({"alice", "wonder:land"}, {"bob", "b\xc3\xb6"}, {"alice", "second"}, {"", "nameless"}));
    assert_user(ask(middleware, basic("alice:wonder:land")), "alice");
    assert_user(ask(middleware, basic("bob:b\xc3\xb6")), "bob");
    assert_user(ask(middleware, basic("alice:second")), "alice");
    assert_user(ask(middleware, basic(":nameless")), "");
    assert_user(ask(middleware, "bAsIc  Om5hbWVsZXNz"), "");
    drop(middleware);
}

static void test_basic_refuses_all_others_alike(void **state) {
    (void)state;
    uvhttp_middleware_t middleware = BASIC(LIST({"alice", "wonder"}, {"bob", "builder"}));
    static const char *const pairs[] = {
        "alice:builder", "bob:wonder",    "alice:wonde", "alice:wonderl", "alice:Wonder",  "Alice:wonder",
        "alice:",        ":wonder",       ":",           "carol:wonder",  "alice:wonder:", "alicewonder",
        "ali:cewonder",  "alice:wonder\n"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i)
        assert_401(ask(middleware, basic(pairs[i])), basic_challenge);
    assert_401(ask(middleware, NULL), basic_challenge);
    drop(middleware);
}

/* Middleware before may say how long the response may be kept, and caches keep a 401 for as long (RFC 9111 section 3).
 */
static void test_refusals_are_not_the_response_that_may_be_kept(void **state) {
    (void)state;
    uvhttp_middleware_t middleware = BASIC(LIST({"alice", "wonder"}));
    for (int with_memory = 0; with_memory < 2; with_memory++) {
        begin(UVHTTP_GET);
        assert_int_equal(uvhttp_response_header(&ex.res, "Cache-Control", "public, max-age=3600"), 0);
        assert_int_equal(uvhttp_response_header(&ex.res, "ETag", "\"page\""), 0);
        if (with_memory) {
            assert_401(run(middleware), basic_challenge);
            continue;
        }
        exchange_field(&ex, "Authorization", basic("alice:wonder"));
        leave_memory(0);
        assert_int_equal(run(middleware), UVHTTP_STOP);
        assert_int_equal(uvhttp_response_status(&ex.res), 503);
        assert_string_equal(fields(), "Retry-After: 1\r\n");
        ex.arena.size_max = SIZE_MAX;
    }
    drop(middleware);
}

static void test_basic_refuses_malformed_credentials(void **state) {
    (void)state;
    uvhttp_middleware_t middleware = BASIC(LIST({"a", "b"}));
    assert_user(ask(middleware, "Basic YTpi"), "a");
    static const char *const wrong[] = {"",           "Basic",       "Basic ",         "BasicYTpi",       "Basic\tYTpi",
                                        "YTpi",       "Basic YTpi=", "Basic YTpi====", "Basic YT pi",     "Basic YTp",
                                        "Basic !!!!", "Bearer YTpi", "Basic YTpi,",    "Basic YTpi YTpi", "Basix YTpi",
                                        "Basic  "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) assert_401(ask(middleware, wrong[i]), basic_challenge);
    begin(UVHTTP_GET);
    exchange_field(&ex, "Authorization", "Basic YTpi");
    exchange_field(&ex, "authorization", "Basic YTpi");
    assert_401(run(middleware), basic_challenge);
    drop(middleware);
}

static void test_longest_names_and_passwords(void **state) {
    (void)state;
    static char user[UVHTTP_AUTH_USER_SIZE_MAX + 2], secret[UVHTTP_AUTH_SECRET_SIZE_MAX + 2], pair[1000];
    memset(user, 'u', UVHTTP_AUTH_USER_SIZE_MAX);
    memset(secret, 's', UVHTTP_AUTH_SECRET_SIZE_MAX);
    uvhttp_middleware_t middleware = BASIC(LIST({user, secret}));
    snprintf(pair, sizeof pair, "%s:%s", user, secret);
    assert_user(ask(middleware, basic(pair)), user);
    snprintf(pair, sizeof pair, "%su:%s", user, secret);
    assert_401(ask(middleware, basic(pair)), basic_challenge);
    snprintf(pair, sizeof pair, "%s:%ss", user, secret);
    assert_401(ask(middleware, basic(pair)), basic_challenge);
    snprintf(pair, sizeof pair, "%.126s:%sss", user, secret);
    assert_401(ask(middleware, basic(pair)), basic_challenge);
    memset(pair, 'a', 900);
    pair[900] = '\0';
    assert_401(ask(middleware, basic(pair)), basic_challenge);
    drop(middleware);
}

static void test_every_entry_of_a_full_list_is_found(void **state) {
    (void)state;
    static uvhttp_credential_t list[UVHTTP_AUTH_CREDENTIALS_MAX + 1];
    static char names[UVHTTP_AUTH_CREDENTIALS_MAX + 1][16];
    for (unsigned i = 0; i <= UVHTTP_AUTH_CREDENTIALS_MAX; ++i) {
        snprintf(names[i], sizeof names[i], "user%u", i);
        list[i] = (uvhttp_credential_t){names[i], names[i]};
    }
    uvhttp_middleware_t middleware = BASIC(.credentials = list, .credential_count = UVHTTP_AUTH_CREDENTIALS_MAX);
    uvhttp_middleware_t tokens = BEARER(.credentials = list, .credential_count = UVHTTP_AUTH_CREDENTIALS_MAX);
    for (unsigned i = 0; i <= UVHTTP_AUTH_CREDENTIALS_MAX; ++i) {
        char text[64];
        snprintf(text, sizeof text, "%.15s:%.15s", names[i], names[i]);
        assert_int_equal(ask(middleware, basic(text)) == UVHTTP_NEXT, i < UVHTTP_AUTH_CREDENTIALS_MAX);
        snprintf(text, sizeof text, "Bearer %.15s", names[i]);
        assert_int_equal(ask(tokens, text) == UVHTTP_NEXT, i < UVHTTP_AUTH_CREDENTIALS_MAX);
        if (i < UVHTTP_AUTH_CREDENTIALS_MAX) assert_str(uvhttp_auth_user(&ex.req), names[i]);
    }
    drop(middleware);
    drop(tokens);
    assert_refused(BASIC(.credentials = list, .credential_count = UVHTTP_AUTH_CREDENTIALS_MAX + 1),
                   "middleware: basic_auth: credential_count is more than 256: use check");
}

static void test_one_bit_makes_other_credentials(void **state) {
    (void)state;
    enum { COLON = UVHTTP_AUTH_USER_SIZE_MAX, SIZE = COLON + 1 + UVHTTP_AUTH_SECRET_SIZE_MAX };
    char pair[SIZE + 1], user[COLON + 1];
    memset(pair, 'U', SIZE);
    pair[COLON] = ':';
    pair[SIZE] = '\0';
    memcpy(user, pair, COLON);
    user[COLON] = '\0';
    uvhttp_middleware_t middleware = BASIC(LIST({user, pair + COLON + 1}));
    for (size_t bit = 0; bit < SIZE * 8; ++bit) {
        if (bit / 8 == COLON) continue;
        char was = pair[bit / 8];
        pair[bit / 8] = (char)(was ^ 1 << bit % 8);
        assert_int_equal(ask(middleware, basic(pair)), UVHTTP_STOP);
        pair[bit / 8] = was;
    }
    assert_int_equal(ask(middleware, basic(pair)), UVHTTP_NEXT);
    drop(middleware);
}

static bool check_pair(uvhttp_request_t *req, uvhttp_str_t user, uvhttp_str_t password, void *arg) {
    assert_ptr_equal(req, &ex.req);
    assert_string_equal(arg, "arg");
    return user.size == password.size && (user.size == 0 || memcmp(user.data, password.data, user.size) == 0);
}

static void test_basic_callback_decides(void **state) {
    (void)state;
    uvhttp_middleware_t middleware = BASIC(.check = check_pair, .arg = "arg");
    assert_user(ask(middleware, basic("same:same")), "same");
    assert_user(ask(middleware, basic(":")), "");
    assert_401(ask(middleware, basic("same:other")), basic_challenge);
    assert_401(ask(middleware, basic("a\x01:a\x01")), basic_challenge);
    drop(middleware);
}

static void test_realm_is_quoted(void **state) {
    (void)state;
    uvhttp_middleware_t middleware = BASIC(.realm = "a \"b\\c\"", .check = check_pair);
    assert_401(ask(middleware, NULL), "WWW-Authenticate: Basic realm=\"a \\\"b\\\\c\\\"\", charset=\"UTF-8\"\r\n");
    drop(middleware);
    char realm[258], expected[600];
    memset(realm, '"', 256);
    realm[256] = '\0';
    middleware = BEARER(.realm = realm, .credentials = &(uvhttp_credential_t){"a", "b"}, .credential_count = 1);
    char *at = expected + sprintf(expected, "WWW-Authenticate: Bearer realm=\"");
    for (int i = 0; i < 256; ++i) *at++ = '\\', *at++ = '"';
    strcpy(at, "\", error=\"invalid_token\"\r\n");
    assert_401(ask(middleware, "Bearer x"), expected);
    drop(middleware);
}

/* --- Bearer --- */

static const char bearer_challenge[] = "WWW-Authenticate: Bearer realm=\"Restricted\"\r\n";
static const char bearer_invalid[] = "WWW-Authenticate: Bearer realm=\"Restricted\", error=\"invalid_token\"\r\n";

static void test_bearer_lets_the_listed_pass(void **state) {
    (void)state;
    uvhttp_middleware_t middleware =
        BEARER(LIST({"ci", "abc.DEF-1_2~3+/=="}, {"", "anonymous"}, {"x", "t"}, {"y", "t"}));
    assert_user(ask(middleware, "Bearer abc.DEF-1_2~3+/=="), "ci");
    assert_user(ask(middleware, "bearer   anonymous"), "");
    assert_user(ask(middleware, "Bearer t"), "y");
    static const char *const invalid[] = {"Bearer abc.DEF-1_2~3+/=",
                                          "Bearer anonymou",
                                          "Bearer anonymouss",
                                          "Bearer ",
                                          "Bearer a b",
                                          "Bearer =",
                                          "Bearer a=b",
                                          "Bearer \"t\"",
                                          "Bearer t,",
                                          "Bearer \xc3\xa4"};
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; ++i)
        assert_401(ask(middleware, invalid[i]), bearer_invalid);
    static const char *const none[] = {NULL, "", "Basic YTpi", "Bearer", "t", "Bearert"};
    for (size_t i = 0; i < sizeof none / sizeof *none; ++i) assert_401(ask(middleware, none[i]), bearer_challenge);
    drop(middleware);
}

static void test_longest_token_of_a_list(void **state) {
    (void)state;
    char token[UVHTTP_AUTH_SECRET_SIZE_MAX + 2], field[600];
    memset(token, 't', sizeof token);
    token[UVHTTP_AUTH_SECRET_SIZE_MAX] = '\0';
    uvhttp_middleware_t middleware = BEARER(LIST({"a", token}));
    snprintf(field, sizeof field, "Bearer %s", token);
    assert_user(ask(middleware, field), "a");
    snprintf(field, sizeof field, "Bearer %st", token);
    assert_401(ask(middleware, field), bearer_invalid);
    drop(middleware);
}

static size_t token_size;

static bool check_token(uvhttp_request_t *req, uvhttp_str_t token, uvhttp_str_t *user, void *arg) {
    (void)req, (void)arg;
    assert_int_equal(user->size, 0);
    token_size = token.size;
    *user = STR("dave");
    return token.data[0] == 'o';
}

static void test_bearer_callback_decides_and_names_the_user(void **state) {
    (void)state;
    uvhttp_middleware_t middleware = BEARER(.check = check_token);
    assert_user(ask(middleware, "Bearer ok"), "dave");
    assert_401(ask(middleware, "Bearer no"), bearer_invalid);
    static char field[4000];
    memset(field, 'o', sizeof field - 1);
    memcpy(field, "Bearer ", 7);
    assert_user(ask(middleware, field), "dave");
    assert_int_equal(token_size, sizeof field - 8);
    token_size = 0;
    assert_401(ask(middleware, "Bearer o o"), bearer_invalid);
    assert_int_equal(token_size, 0);
    drop(middleware);
}

static void test_id_and_user_of_a_request_are_two_things(void **state) {
    (void)state;
    uvhttp_middleware_t id = uvhttp_request_id(NULL), outer = BASIC(LIST({"outer", "a"})),
                        inner = BASIC(LIST({"inner", "b"}, {"outer", "a"}));
    for (int id_last = 0; id_last < 2; ++id_last) {
        begin(UVHTTP_GET);
        exchange_field(&ex, "Authorization", basic("outer:a"));
        if (!id_last) run(id);
        run(outer);
        run(inner);
        if (id_last) run(id);
        assert_str(uvhttp_auth_user(&ex.req), "outer");
        assert_int_equal(uvhttp_request_id_get(&ex.req).size, 32);
    }
    drop(id), drop(outer), drop(inner);
}

/* --- options and memory --- */

static void test_options_that_contradict_are_refused(void **state) {
    (void)state;
    assert_refused(uvhttp_basic_auth(NULL),
                   "middleware: basic_auth: neither credentials nor check is set: nobody could pass");
    assert_refused(uvhttp_bearer_auth(NULL),
                   "middleware: bearer_auth: neither credentials nor check is set: nobody could pass");
    assert_refused(BASIC(LIST({"a", "b"}), .check = check_pair),
                   "middleware: basic_auth: credentials and check are both set: give one of them");
    assert_refused(BASIC(.credential_count = 1),
                   "middleware: basic_auth: credentials is NULL, but credential_count is not 0");
    assert_refused(BASIC(LIST({"a", "b"}, {"a:b", "c"})),
                   "middleware: basic_auth: credentials[1].user has a ':', which ends it in a request");
    assert_refused(BASIC(LIST({"a", ""})),
                   "middleware: basic_auth: credentials[0].secret is NULL, empty or longer than 512 bytes");
    assert_null(BASIC(LIST({"a", NULL})).run);
    assert_null(BASIC(LIST({NULL, "a"})).run);
    assert_null(BASIC(LIST({"a\n", "a"})).run);
    assert_null(BASIC(LIST({"a", "\x7f"})).run);
    assert_refused(BEARER(LIST({"a", "two words"})),
                   "middleware: bearer_auth: credentials[0].secret is no token: expected [A-Za-z0-9._~+/-]+=*");
    assert_null(BASIC(.realm = "a\r\nb", .check = check_pair).run);
    char text[UVHTTP_AUTH_SECRET_SIZE_MAX + 2];
    memset(text, 'a', sizeof text);
    text[UVHTTP_AUTH_SECRET_SIZE_MAX + 1] = '\0';
    assert_null(BASIC(LIST({"a", text})).run);
    text[257] = '\0';
    assert_null(BASIC(.realm = text, .check = check_pair).run);
    text[UVHTTP_AUTH_USER_SIZE_MAX + 1] = '\0';
    assert_null(BASIC(LIST({text, "a"})).run);
}

static void test_options_are_copied(void **state) {
    (void)state;
    char user[] = "alice", secret[] = "wonder";
    uvhttp_middleware_t middleware = BASIC(LIST({user, secret}));
    memset(user, 'x', 5);
    memset(secret, 'x', 6);
    assert_user(ask(middleware, basic("alice:wonder")), "alice");
    drop(middleware);
}

static void test_without_memory_nobody_passes(void **state) {
    (void)state;
    uvhttp_middleware_t middleware = BASIC(LIST({"alice", "wonder"}));
    begin(UVHTTP_GET);
    exchange_field(&ex, "Authorization", basic("alice:wonder"));
    leave_memory(0);
    assert_int_equal(run(middleware), UVHTTP_STOP);
    assert_int_equal(uvhttp_response_status(&ex.res), 503);
    begin(UVHTTP_GET);
    leave_memory(0);
    assert_int_equal(run(middleware), UVHTTP_STOP);
    assert_int_equal(uvhttp_response_status(&ex.res), 503);
    drop(middleware);
    ex.arena.size_max = SIZE_MAX;
}

static uvhttp_middleware_t make(void) {
    return BEARER(LIST({"a", "b"}));
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    assert_refused_without_memory(make, "middleware: bearer_auth: out of memory", 1);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS_WITH(setup, teardown, test_basic_lets_the_listed_pass, test_basic_refuses_all_others_alike,
                          test_refusals_are_not_the_response_that_may_be_kept, test_basic_refuses_malformed_credentials,
                          test_longest_names_and_passwords, test_every_entry_of_a_full_list_is_found,
                          test_one_bit_makes_other_credentials, test_basic_callback_decides, test_realm_is_quoted,
                          test_bearer_lets_the_listed_pass, test_longest_token_of_a_list,
                          test_bearer_callback_decides_and_names_the_user, test_id_and_user_of_a_request_are_two_things,
                          test_options_that_contradict_are_refused, test_options_are_copied,
                          test_without_memory_nobody_passes, test_every_allocation_may_fail);
}
