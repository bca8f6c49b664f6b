/* Owns: tests of whole forms: both encodings, what is refused, names of files, and saving them. */
/* Needs: forms. */
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uvhttp/form.h>

#include "message/multipart.h"
#include "support/exchange.h"
#include "support/failing_allocator.h"
#include "support/run.h"

#define URLENCODED "application/x-www-form-urlencoded"
#define MULTIPART "multipart/form-data; boundary=b"
#define FIELD(name, value) "--b\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"
#define FILE_PART(name, filename, value)                                                                               \
    "--b\r\nContent-Disposition: form-data; name=\"" name "\"; filename=\"" filename                                   \
    "\"\r\nContent-Type: text/plain\r\n\r\n" value "\r\n"
#define END "--b--\r\n"

static exchange_t ex;
static uvhttp_form_t *form;

static int parse(const char *type, uvhttp_str_t body, const uvhttp_form_limits_t *limits) {
    exchange_request(&ex, UVHTTP_POST, STR("/"), NULL);
    if (type) exchange_field(&ex, "Content-Type", type);
    ex.req.body = body;
    form = (uvhttp_form_t *)&ex;
    int status = uvhttp_request_form(&ex.req, limits, &form);
    assert_true((status == 0) == (form != NULL));
    return status;
}
#define PARSE(type, body) parse(type, STR(body), NULL)

static void expect_field(const char *name, const char *text) {
    uvhttp_str_t value;
    assert_true(uvhttp_form_field(form, name, &value));
    assert_str(value, text);
}

/* --- urlencoded --- */

static void test_urlencoded_fields_are_decoded(void **state) {
    (void)state;
    uvhttp_str_t name, value;
    assert_int_equal(PARSE(URLENCODED "; charset=UTF-8", "a=1&b=x+y%20z&%63+c=%26%3D&d&e=&f=1=2&&=g&"), 0);
    assert_int_equal(uvhttp_form_field_count(form), 7);
    assert_int_equal(uvhttp_form_file_count(form), 0);
    expect_field("a", "1");
    expect_field("b", "x y z");
    expect_field("c c", "&=");
    expect_field("d", "");
    expect_field("e", "");
    expect_field("f", "1=2");
    expect_field("", "g");
    assert_true(uvhttp_form_field_at(form, 6, &name, &value));
    assert_int_equal(name.size, 0);
    assert_false(uvhttp_form_field_at(form, 7, &name, &value));
    assert_null(name.data);
    assert_true(uvhttp_form_field_at(form, 0, NULL, NULL));
    assert_false(uvhttp_form_field(form, "A", &value));
    assert_null(value.data);
    assert_false(uvhttp_form_field(form, "none", NULL));
    assert_true(uvhttp_form_field(form, "a", NULL));
}

static void test_value_may_hold_nul_but_no_name(void **state) {
    (void)state;
    uvhttp_str_t value;
    assert_int_equal(PARSE(URLENCODED, "a=x%00y"), 0);
    assert_true(uvhttp_form_field(form, "a", &value));
    assert_int_equal(value.size, 3);
    assert_memory_equal(value.data, "x\0y", 3);
    assert_int_equal(PARSE(URLENCODED, "a%00b=1"), UVHTTP_E_FORM_ENCODING);
    assert_int_equal(PARSE(URLENCODED, "a\0b=1"), UVHTTP_E_FORM_ENCODING);
}

static void test_malformed_escapes_refuse_the_form(void **state) {
    (void)state;
    assert_int_equal(PARSE(URLENCODED, "a=%"), UVHTTP_E_FORM_ENCODING);
    assert_int_equal(PARSE(URLENCODED, "a=%2"), UVHTTP_E_FORM_ENCODING);
    assert_int_equal(PARSE(URLENCODED, "a=1&%zz=1"), UVHTTP_E_FORM_ENCODING);
    assert_int_equal(uvhttp_error_http_status(UVHTTP_E_FORM_ENCODING), 400);
}

static void test_repeated_fields_are_iterated(void **state) {
    (void)state;
    uvhttp_str_t value;
    size_t index = 0;
    assert_int_equal(PARSE(URLENCODED, "a=1&b=x&a=2&a=3"), 0);
    expect_field("a", "1");
    for (int i = 1; i <= 3; ++i) {
        char text[2] = {(char)('0' + i), '\0'};
        assert_true(uvhttp_form_field_next(form, "a", &index, &value));
        assert_str(value, text);
    }
    assert_false(uvhttp_form_field_next(form, "a", &index, &value));
    assert_null(value.data);
}

static void test_empty_body_is_an_empty_form(void **state) {
    (void)state;
    assert_int_equal(parse(URLENCODED, (uvhttp_str_t){NULL, 0}, NULL), 0);
    assert_int_equal(uvhttp_form_field_count(form), 0);
    assert_int_equal(parse(MULTIPART, (uvhttp_str_t){NULL, 0}, NULL), UVHTTP_E_MULTIPART_INCOMPLETE);
}

/* Right before an unmapped page: what is read behind the body is seen. */
static void test_urlencoded_reads_nothing_behind_the_body(void **state) {
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + page, page, PROT_NONE), 0);
    static const char text[] = "a=1&b%20=%41+&c&=&&%6=%";
    for (size_t begin = 0; begin < sizeof text - 1; ++begin)
        for (size_t size = 0; begin + size < sizeof text; ++size) {
            memcpy(map + page - size, text + begin, size);
            int status = parse(URLENCODED, (uvhttp_str_t){map + page - size, size}, NULL);
            assert_true(status == 0 || status == UVHTTP_E_FORM_ENCODING);
        }
    munmap(map, 2 * page);
}

/* --- multipart --- */

static void test_multipart_fields_and_files_are_found(void **state) {
    (void)state;
    uvhttp_form_file_t file;
    uvhttp_str_t name;
    assert_int_equal(PARSE(MULTIPART, FIELD("t", "--bx is not it") FILE_PART("f", "C:\\x\\.n.txt", "--b data")
                                          FIELD("t", "two\r\n") FILE_PART("g", "", "") END),
                     UVHTTP_E_MULTIPART_FRAMING); /* a delimiter right behind the header is one */
    assert_int_equal(PARSE(MULTIPART, FIELD("t", "--c+%41") FILE_PART("f", "C:\\x\\.n.txt", "--\r\n--data")
                                          FIELD("t", "two\r\n") FILE_PART("g", "", "") END),
                     0);
    assert_int_equal(uvhttp_form_field_count(form), 2);
    assert_int_equal(uvhttp_form_file_count(form), 2);
    expect_field("t", "--c+%41");
    assert_true(uvhttp_form_field_at(form, 1, &name, NULL));
    assert_str(name, "t");
    assert_true(uvhttp_form_file(form, "f", &file));
    assert_str(file.field, "f");
    assert_str(file.name, "n.txt");
    assert_str(file.name_raw, "C:\\x\\.n.txt");
    assert_str(file.content_type, "text/plain");
    assert_str(file.data, "--\r\n--data");
    assert_true(file.data.data > ex.req.body.data && file.data.data < ex.req.body.data + ex.req.body.size);
    assert_true(uvhttp_form_file_at(form, 1, &file));
    assert_str(file.name, "");
    assert_str(file.data, "");
    assert_false(uvhttp_form_file(form, "t", &file));
    assert_null(file.data.data);
    assert_false(uvhttp_form_file_at(form, 2, &file));
}

static void test_what_is_no_form_gets_415(void **state) {
    (void)state;
    assert_int_equal(PARSE(NULL, "a=1"), UVHTTP_E_FORM_TYPE);
    assert_int_equal(PARSE("", "a=1"), UVHTTP_E_FORM_TYPE);
    assert_int_equal(PARSE("text/plain", "a=1"), UVHTTP_E_FORM_TYPE);
    assert_int_equal(PARSE("multipart/mixed; boundary=b", "--b--"), UVHTTP_E_FORM_TYPE);
    assert_int_equal(PARSE("multipart/form-data", "--b--"), UVHTTP_E_MULTIPART_BOUNDARY);
    exchange_request(&ex, UVHTTP_POST, STR("/"), NULL);
    exchange_field(&ex, "Content-Type", URLENCODED);
    exchange_field(&ex, "content-type", URLENCODED);
    assert_int_equal(uvhttp_request_form(&ex.req, NULL, &form), UVHTTP_E_FORM_TYPE);
    assert_int_equal(uvhttp_error_http_status(UVHTTP_E_FORM_TYPE), 415);
}

static int parse_coded(const char *type, uvhttp_str_t body, const char *coding, const char *more) {
    exchange_request(&ex, UVHTTP_POST, STR("/"), NULL);
    exchange_field(&ex, "Content-Type", type);
    exchange_field(&ex, "Content-Encoding", coding);
    if (more) exchange_field(&ex, "Content-Encoding", more);
    ex.req.body = body;
    return uvhttp_request_form(&ex.req, NULL, &form);
}

/* RFC 9110 section 8.4: the bytes are not those of the form, which a filter that decodes them would see. */
static void test_a_form_in_a_content_coding_gets_415(void **state) {
    (void)state;
    assert_int_equal(parse_coded(URLENCODED, STR("a=1"), "gzip", NULL), UVHTTP_E_FORM_TYPE);
    assert_int_equal(parse_coded(URLENCODED, STR("a=1"), "identity, deflate", NULL), UVHTTP_E_FORM_TYPE);
    assert_int_equal(parse_coded(URLENCODED, STR("a=1"), "identity", "br"), UVHTTP_E_FORM_TYPE);
    assert_int_equal(parse_coded(MULTIPART, STR(FIELD("a", "1") END), "gzip", NULL), UVHTTP_E_FORM_TYPE);
    assert_int_equal(parse_coded(URLENCODED, STR("a=1"), "Identity", ""), 0); /* none at all */
    expect_field("a", "1");
}

static void test_limits_hold_for_both_encodings(void **state) {
    (void)state;
    const uvhttp_form_limits_t two = {.field_count_max = 2}, small = {.part_size_max = 3},
                               wrong = {.header_size_max = 1};
    assert_int_equal(parse(URLENCODED, STR("a=1&&b=2&"), &two), 0);
    assert_int_equal(parse(URLENCODED, STR("a=1&b=2&c"), &two), UVHTTP_E_FORM_TOO_MANY_FIELDS);
    assert_int_equal(parse(MULTIPART, STR(FIELD("a", "1") FILE_PART("b", "n", "2") END), &two), 0);
    assert_int_equal(parse(MULTIPART, STR(FIELD("a", "1") FIELD("b", "2") FIELD("c", "3") END), &two),
                     UVHTTP_E_FORM_TOO_MANY_FIELDS);
    assert_int_equal(parse(MULTIPART, STR(FIELD("a", "123") END), &small), 0);
    assert_int_equal(parse(MULTIPART, STR(FIELD("a", "1234") END), &small), UVHTTP_E_MULTIPART_PART_TOO_LARGE);
    assert_int_equal(parse(URLENCODED, STR("a"), &wrong), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_error_http_status(UVHTTP_E_FORM_TOO_MANY_FIELDS), 413);
}

static void test_urlencoded_fields_are_bounded_by_default(void **state) {
    (void)state;
    static char text[2 * 1001];
    for (size_t i = 0; i < 1001; ++i) memcpy(text + 2 * i, "a&", 2);
    assert_int_equal(parse(URLENCODED, (uvhttp_str_t){text, 2000}, NULL), 0);
    assert_int_equal(uvhttp_form_field_count(form), 1000);
    assert_int_equal(parse(URLENCODED, (uvhttp_str_t){text, 2002}, NULL), UVHTTP_E_FORM_TOO_MANY_FIELDS);
}

/* --- memory --- */

static void test_memory_limit_gives_413_at_every_place(void **state) {
    (void)state;
    static const uvhttp_str_t bodies[] = {UVHTTP__STR_INIT("a=%41&b=%42&c=3&d=4&e=5&f=6&g=7&h=8&i=9&%6a=10"),
                                          UVHTTP__STR_INIT(FIELD("a", "1") FILE_PART("f", "n.txt", "x") END)};
    static const char *const types[] = {URLENCODED, MULTIPART};
    for (size_t i = 0; i < 2; ++i) {
        int status = UVHTTP_E_FORM_TOO_LARGE;
        for (size_t limit = 0; status != 0; ++limit) {
            assert_true(limit < 4096);
            ex.arena.size_max = limit;
            status = parse(types[i], bodies[i], NULL);
            assert_true(status == 0 || status == UVHTTP_E_FORM_TOO_LARGE);
        }
    }
    ex.arena.size_max = 1 << 20;
}

static void attempt_big_form(void *user) {
    (void)user;
    static char text[60000];
    for (size_t i = 0; i + 10 <= sizeof text; i += 10) memcpy(text + i, "a=%41+b+c&", 10);
    static exchange_t one;
    exchange_init(&one, 8 << 20);
    exchange_field(&one, "Content-Type", URLENCODED);
    one.req.body = (uvhttp_str_t){text, sizeof text};
    uvhttp_form_t *big;
    int status = uvhttp_request_form(&one.req, &(uvhttp_form_limits_t){.field_count_max = 10000}, &big);
    assert_true(status == (test_allocator_failed() ? UVHTTP_E_NOMEM : 0));
    exchange_deinit(&one);
}

static void test_no_allocation_may_fail_unseen(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(attempt_big_form, NULL) > 5);
}

/* --- names of files --- */

static void expect_name(uvhttp_str_t raw, const char *name) {
    char out[4096];
    size_t size = uvhttp__form_sanitise_name(raw, out);
    if (size != strlen(name) || memcmp(out, name, size) != 0)
        fail_msg("\"%.*s\" gave \"%.*s\", not \"%s\"", (int)raw.size, raw.data, (int)size, out, name);
}
#define NAME(raw, name) expect_name(STR(raw), name)

static void test_file_names_are_sanitised(void **state) {
    (void)state;
    NAME("photo.jpg", "photo.jpg");
    NAME("a b-c_d.tar.gz", "a b-c_d.tar.gz");
    NAME("../../etc/passwd", "passwd");
    NAME("/etc/passwd", "passwd");
    NAME("C:\\Users\\me\\x.doc", "x.doc");
    NAME("..\\..\\x", "x");
    NAME("dir/", "");
    NAME("", "");
    NAME(".", "");
    NAME("..", "");
    NAME("...", "");
    NAME(" . .", "");
    NAME(".htaccess", "htaccess");
    NAME(". .x. .", "x");
    NAME("\x01.\x7f.x", "x");
    NAME("a\0b\r\n\tc", "abc");
    NAME("caf\xc3\xa9.txt", "caf\xc3\xa9.txt");
    NAME("\xe2\x80\xaegpj.exe", "gpj.exe"); /* right-to-left override */
    NAME("a\xc2\x85"
         "b",
         "ab");                  /* U+0085 */
    NAME("\xef\xbb\xbf.x", "x"); /* a byte order mark hides no dot */
    NAME("a\xff.txt", "a_.txt");
    NAME("\xc0\xae\xc0\xae\xc0\xaf", "______"); /* overlong "../" */
    NAME("\xed\xa0\x80", "___");                /* a surrogate */
    NAME("\xf4\x90\x80\x80", "____");           /* above U+10FFFF */
    NAME("\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80");
    NAME("x\xc3", "x_");
}

static void test_long_file_names_are_cut_between_characters(void **state) {
    (void)state;
    char raw[1000], out[1000], expected[300];
    memset(raw, 'a', sizeof raw);
    assert_int_equal(uvhttp__form_sanitise_name((uvhttp_str_t){raw, 200}, out), 200);
    assert_int_equal(uvhttp__form_sanitise_name((uvhttp_str_t){raw, 201}, out), 200);
    memcpy(raw + sizeof raw - 4, ".png", 4);
    memset(expected, 'a', 196);
    memcpy(expected + 196, ".png", 5);
    expect_name((uvhttp_str_t){raw, sizeof raw}, expected);
    for (size_t i = 0; i < 900; i += 3) memcpy(raw + i, "\xe2\x82\xac", 3);
    size_t size = uvhttp__form_sanitise_name((uvhttp_str_t){raw, 900}, out);
    assert_int_equal(size, 198); /* 66 whole characters */
    assert_memory_equal(out, raw, size);
    raw[0] = 'x';
    memset(raw + 1, '.', 998);
    memset(raw + 950, 'y', 50); /* too long to be kept as an extension */
    expect_name((uvhttp_str_t){raw, 1000}, "x");
}

/* --- saving --- */

static char directory_path[64];
static int directory;

static void expect_content(const char *name, const char *text) {
    char content[64] = "";
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW);
    if (fd < 0) fail_msg("%s is missing", name);
    assert_int_equal(read(fd, content, sizeof content), (ssize_t)strlen(text));
    assert_memory_equal(content, text, strlen(text));
    close(fd);
}

static void test_saving_overwrites_nothing_and_follows_no_link(void **state) {
    (void)state;
    char saved[UVHTTP_FORM_SAVED_NAME_SIZE];
    uvhttp_form_file_t file = {.name = STR("n.tar.gz"), .data = STR("one")};
    assert_int_equal(uvhttp_form_file_save(&file, directory, NULL, saved), 0);
    assert_string_equal(saved, "n.tar.gz");
    file.data = STR("two");
    assert_int_equal(uvhttp_form_file_save(&file, directory, NULL, saved), 0);
    assert_string_equal(saved, "n.tar-1.gz");
    expect_content("n.tar.gz", "one");
    expect_content("n.tar-1.gz", "two");
    assert_int_equal(symlinkat("n.tar.gz", directory, "link"), 0);
    assert_int_equal(symlinkat("nowhere", directory, "dangling"), 0);
    assert_int_equal(uvhttp_form_file_save(&file, directory, "link", saved), 0);
    assert_string_equal(saved, "link-1");
    assert_int_equal(uvhttp_form_file_save(&file, directory, "dangling", NULL), 0);
    expect_content("dangling-1", "two");
    expect_content("n.tar.gz", "one");
    assert_int_equal(faccessat(directory, "nowhere", F_OK, 0), -1);
    struct stat info;
    assert_int_equal(fstatat(directory, "link-1", &info, 0), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    file.name = STR("");
    assert_int_equal(uvhttp_form_file_save(&file, directory, NULL, saved), 0);
    assert_string_equal(saved, "upload");
}

static void test_saving_refuses_names_that_leave_the_directory(void **state) {
    (void)state;
    uvhttp_form_file_t file = {.name = STR("n"), .data = STR("x")};
    char longest[UVHTTP_FORM_FILE_NAME_SIZE_MAX + 2];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *const wrong[] = {"", ".", "..", "/x", "../x", "a/b", "a/", longest};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i)
        assert_int_equal(uvhttp_form_file_save(&file, directory, wrong[i], NULL), UVHTTP_E_INVALID);
    file.name = STR("../x"); /* made by the caller, not by the library */
    assert_int_equal(uvhttp_form_file_save(&file, directory, NULL, NULL), UVHTTP_E_INVALID);
    file.name = STR("a\0b");
    assert_int_equal(uvhttp_form_file_save(&file, directory, NULL, NULL), UVHTTP_E_INVALID);
    file.name = STR("n");
    assert_int_equal(uvhttp_form_file_save(&file, -1, NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_form_file_save(&file, AT_FDCWD, NULL, NULL), UVHTTP_E_INVALID);
    int null = open("/dev/null", O_RDONLY);
    assert_int_equal(uvhttp_form_file_save(&file, null, NULL, NULL), UVHTTP_E_INVALID);
    close(null);
}

static void test_names_alike_are_bounded(void **state) {
    (void)state;
    char saved[UVHTTP_FORM_SAVED_NAME_SIZE];
    uvhttp_form_file_t file = {.name = STR("n.c"), .data = STR("")};
    for (int i = 0; i < 1000; ++i) assert_int_equal(uvhttp_form_file_save(&file, directory, NULL, saved), 0);
    assert_string_equal(saved, "n-999.c");
    assert_int_equal(uvhttp_form_file_save(&file, directory, NULL, saved), UVHTTP_E_LIMIT);
}

static void test_file_that_cannot_be_written_is_removed(void **state) {
    (void)state;
    uvhttp_form_file_t file = {.name = STR("n"), .data = {(const char *)1, 10}}; /* EFAULT */
    assert_int_equal(uvhttp_form_file_save(&file, directory, NULL, NULL), UVHTTP_E_IO);
    assert_int_equal(faccessat(directory, "n", F_OK, 0), -1);
}

static int set_up(void **state) {
    (void)state;
    exchange_init(&ex, 1 << 20);
    strcpy(directory_path, "/tmp/uvhttp_test_form.XXXXXX");
    if (!mkdtemp(directory_path)) return -1;
    directory = open(directory_path, O_RDONLY | O_DIRECTORY);
    return directory < 0 ? -1 : 0;
}

static int tear_down(void **state) {
    (void)state;
    exchange_deinit(&ex);
    DIR *entries = fdopendir(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));) unlinkat(directory, entry->d_name, 0);
    if (entries) closedir(entries);
    return rmdir(directory_path);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS_WITH(
        set_up, tear_down, test_urlencoded_fields_are_decoded, test_value_may_hold_nul_but_no_name,
        test_malformed_escapes_refuse_the_form, test_repeated_fields_are_iterated, test_empty_body_is_an_empty_form,
        test_urlencoded_reads_nothing_behind_the_body, test_multipart_fields_and_files_are_found,
        test_what_is_no_form_gets_415, test_a_form_in_a_content_coding_gets_415, test_limits_hold_for_both_encodings,
        test_urlencoded_fields_are_bounded_by_default, test_memory_limit_gives_413_at_every_place,
        test_no_allocation_may_fail_unseen, test_file_names_are_sanitised,
        test_long_file_names_are_cut_between_characters, test_saving_overwrites_nothing_and_follows_no_link,
        test_saving_refuses_names_that_leave_the_directory, test_names_alike_are_bounded,
        test_file_that_cannot_be_written_is_removed);
}
