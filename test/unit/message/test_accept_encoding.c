/* Owns: tests of reading Accept-Encoding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "message/accept_encoding.h"
#include "support/run.h"

typedef struct vector {
    const char *value;
    unsigned gzip, brotli;
} vector_t;

static void test_weights(void **state) {
    (void)state;
    static const vector_t vectors[] = {
        {"", 0, 0},
        {"gzip", 1000, 0},
        {"GZip , BR", 1000, 1000},
        {"gzip, deflate, br, zstd", 1000, 1000},
        {"x-gzip", 1000, 0},
        {"gzip;q=0.5, br;q=0.25", 500, 250},
        {"gzip ; q=0.5 , br;Q=1.000", 500, 1000},
        {"gzip;q=0, *", 0, 1000},
        {"*;q=0.001", 1, 1},
        {"*;q=0, br", 0, 1000},
        {"identity;q=0", 0, 0},
        {"identity;q=0, gzip;q=0.1", 100, 0},
        {"identity, gzip, br;q=0.9", 1000, 0}, /* what it likes less than no coding at all is not for it */
        {"gzip;q=0.5, br, Identity;q=0.6", 0, 1000},
        {"*;q=0.5, identity;q=0.6", 0, 0},
        {"gzip;q=1.001", 0, 0}, /* malformed: passed over */
        {"gzip;q=2, br", 0, 1000},
        {"gzip;q=0.1234, br", 0, 1000},
        {"gzip;q=, br", 0, 1000},
        {"gzip;q=0.x, br", 0, 1000},
        {"gzip;q=-1, br", 0, 1000},
        {"gzip;q=01, br", 0, 1000},
        {"gzip;q=1,0, br", 1000, 1000},
        {"gzip;q=0./, br", 0, 1000},
        {"gzip;q=0.:, br", 0, 1000},
        {"gzip;qs=0.1;Q=0.2;r=0.3", 200, 0},
        {"gzip;q", 1000, 0},
        {"gzip;level=9;q=0.3", 300, 0},
        {"gzip;q=0., br;q=1.", 0, 1000},
        {",,gzip,,", 1000, 0},
        {"gzipped, brotli", 0, 0},
        {"gzip, gzip;q=0.2", 200, 0},
        {" \t ; ; , ;", 0, 0},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; ++i) {
        uvhttp__accept_encoding_t accept = {0};
        uvhttp__accept_encoding_add(&accept, (uvhttp_str_t){vectors[i].value, strlen(vectors[i].value)});
        if (uvhttp__accept_gzip(&accept) != vectors[i].gzip || uvhttp__accept_brotli(&accept) != vectors[i].brotli)
            fail_msg("\"%s\": gzip %u, br %u", vectors[i].value, uvhttp__accept_gzip(&accept),
                     uvhttp__accept_brotli(&accept));
    }
}

static void test_fields_add_up(void **state) {
    (void)state;
    uvhttp__accept_encoding_t accept = {0};
    uvhttp__accept_encoding_add(&accept, (uvhttp_str_t){"gzip;q=0.5", 10});
    uvhttp__accept_encoding_add(&accept, (uvhttp_str_t){"br", 2});
    assert_int_equal(uvhttp__accept_gzip(&accept), 500);
    assert_int_equal(uvhttp__accept_brotli(&accept), 1000);
}

int main(void) {
    return RUN_TESTS(test_weights, test_fields_add_up);
}
