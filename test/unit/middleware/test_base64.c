/* Owns: tests of strict base64 decoding. */
/* Needs: middleware. */
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "middleware/base64.h"

static char *page_end; /* an unreadable page follows */

static int setup_guard(void **state) {
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    page_end = pages + page;
    return 0;
}

/* Decodes a text that ends at the unreadable page. */
static bool decode(const char *text, char *out, size_t *size) {
    size_t length = strlen(text);
    memcpy(page_end - length, text, length);
    return uvhttp__base64_decode((uvhttp_str_t){page_end - length, length}, out, size);
}

/* RFC 4648 section 10. */
static void test_vectors_of_the_rfc(void **state) {
    (void)state;
    static const char *const vectors[][2] = {{"", ""},
                                             {"Zg==", "f"},
                                             {"Zm8=", "fo"},
                                             {"Zm9v", "foo"},
                                             {"Zm9vYg==", "foob"},
                                             {"Zm9vYmE=", "fooba"},
                                             {"Zm9vYmFy", "foobar"},
                                             {"+/+/", "\xfb\xff\xbf"}};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; ++i) {
        char out[16];
        size_t size = 99;
        assert_true(decode(vectors[i][0], out, &size));
        assert_int_equal(size, strlen(vectors[i][1]));
        assert_memory_equal(out, vectors[i][1], size);
    }
}

static void test_what_no_encoder_writes_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "Z",     "Zg",    "Zg=",  "Zm8",  "Zh==",   "Zm9=",  "====",  "=",       "Zg==Zg==", "Zm9vZ===",
        "Zm9 v", "Zm9v ", "-_-_", "Z=g=", "Zm9v\n", " Zm9v", "Zm9v=", "Zm\x80v", "Zm9v===="};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        char out[16];
        size_t size;
        if (decode(wrong[i], out, &size)) fail_msg("\"%s\" is taken", wrong[i]);
    }
    char out[16];
    size_t size;
    assert_false(uvhttp__base64_decode((uvhttp_str_t){"Zm\0v", 4}, out, &size));
}

/* Every text of four characters of the alphabet is either refused or what an encoder makes of its bytes: checked by
 * counting, for there are exactly 256^1 + 256^2 right ones with padding. */
static void test_each_padded_text_is_accepted_in_one_form_only(void **state) {
    (void)state;
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t one = 0, two = 0;
    for (unsigned i = 0; i < 64 * 64; ++i) {
        char text[5] = {alphabet[i >> 6], alphabet[i & 63], '=', '=', '\0'}, out[16];
        size_t size;
        one += decode(text, out, &size);
        for (unsigned j = 0; j < 64; ++j) {
            text[2] = alphabet[j];
            two += decode(text, out, &size);
        }
    }
    assert_int_equal(one, 256);
    assert_int_equal(two, 65536);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_of_the_rfc),
        cmocka_unit_test(test_what_no_encoder_writes_is_refused),
        cmocka_unit_test(test_each_padded_text_is_accepted_in_one_form_only),
    };
    return cmocka_run_group_tests(tests, setup_guard, NULL);
}
