/* Owns: fuzzing of whole forms (libFuzzer): what is given must lie in the body or the arena and be readable, and names
 * of files must be safe. Input: a byte for the limit of memory, the Content-Type up to a LF, the body. */
/* Needs: forms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/form.h>

#include "message/message.h"

static void die(const char *what) {
    fprintf(stderr, "fuzz_form: %s\n", what);
    abort();
}

/* Reads every byte, so that the sanitizer sees each. */
static void touch(uvhttp_str_t str) {
    static volatile char last;
    for (size_t i = 0; i < str.size; ++i) last = str.data[i];
    (void)last;
}

static void expect_safe(uvhttp_str_t name) {
    if (name.size == 0) return;
    if (name.size > UVHTTP_FORM_FILE_NAME_SIZE_MAX) die("a file name is too long");
    if (strchr(". ", name.data[0]) || strchr(". ", name.data[name.size - 1])) die("a file name begins or ends so");
    size_t following = 0; /* bytes of a UTF-8 sequence that are to come */
    for (size_t i = 0; i < name.size; ++i) {
        uint8_t byte = (uint8_t)name.data[i];
        if (byte < 0x20 || byte == 0x7f || byte == '/' || byte == '\\') die("a file name holds what it must not");
        bool continues = (byte & 0xc0) == 0x80;
        if (continues != (following > 0)) die("a file name is not UTF-8");
        following = continues ? following - 1 : byte < 0x80 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    }
    if (following > 0) die("a file name is not UTF-8");
}

static void look_at(const uvhttp_form_t *form) {
    uvhttp_str_t name, value;
    uvhttp_form_file_t file;
    size_t index = 0;
    for (; uvhttp_form_field_at(form, index, &name, &value); ++index) {
        touch(name);
        touch(value);
        if (name.size && memchr(name.data, '\0', name.size)) die("NUL in a name");
    }
    if (index != uvhttp_form_field_count(form)) die("the number of fields is wrong");
    for (index = 0; uvhttp_form_file_at(form, index, &file); ++index) {
        touch(file.field);
        touch(file.name_raw);
        touch(file.content_type);
        touch(file.data);
        expect_safe(file.name);
    }
    if (index != uvhttp_form_file_count(form)) die("the number of files is wrong");
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    if (input_size < 1) return 0;
    const char *data = (const char *)input + 1;
    size_t size = input_size - 1;
    const char *lf = size ? memchr(data, '\n', size) : NULL;
    if (!lf) return 0;
    size_t type_size = (size_t)(lf - data), body_size = size - type_size - 1;
    char *head = malloc(12 + type_size), *body = malloc(body_size ? body_size : 1);
    if (!head || !body) abort();
    memcpy(head, "Content-Type", 12);
    memcpy(head + 12, data, type_size);
    memcpy(body, lf + 1, body_size);
    uvhttp__arena_t arena;
    uvhttp_request_t req;
    uvhttp__field_t field = {{0, 12}, {12, (uint32_t)type_size}};
    uvhttp_form_t *form;
    uvhttp__arena_init(&arena, NULL, 0, input[0] & 1 ? SIZE_MAX : input[0] * 16u);
    uvhttp__request_init(&req, &arena, NULL);
    req.base = head;
    req.head.headers = &field;
    req.head.header_count = 1;
    req.body = (uvhttp_str_t){body, body_size};
    int status = uvhttp_request_form(&req, &(uvhttp_form_limits_t){.field_count_max = 100}, &form);
    if (status == 0) look_at(form);
    if (status != 0 && (form || uvhttp_error_http_status(status) >= 500)) die("a bad form is the client's mistake");
    uvhttp__arena_deinit(&arena);
    free(head);
    free(body);
    return 0;
}
