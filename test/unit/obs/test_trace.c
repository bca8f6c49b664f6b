/* Owns: tests of the text of a trace context, against W3C Trace Context. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "obs/trace.h"
#include "support/run.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"

static bool parses(const char *text) {
    uvhttp__trace_context_t context;
    return uvhttp__traceparent_parse(uvhttp__str_from(text), &context);
}

static void test_a_traceparent_is_read_and_written_alike(void **state) {
    (void)state;
    static const char text[] = "00-" TRACE "-" SPAN "-01";
    uvhttp__trace_context_t context;
    char written[UVHTTP__TRACEPARENT_SIZE + 1] = "";
    assert_true(uvhttp__traceparent_parse(uvhttp__str_from(text), &context));
    assert_int_equal(context.flags, UVHTTP__TRACE_SAMPLED);
    assert_int_equal(context.trace_id[0], 0x0a);
    assert_int_equal(context.span_id[7], 0x31);
    uvhttp__traceparent_write(&context, written);
    assert_string_equal(written, text);
}

static void test_unknown_flags_are_dropped(void **state) {
    (void)state;
    uvhttp__trace_context_t context;
    assert_true(uvhttp__traceparent_parse(uvhttp__str_from("00-" TRACE "-" SPAN "-fe"), &context));
    assert_int_equal(context.flags, UVHTTP__TRACE_RANDOM);
}

static void test_later_versions_may_have_more(void **state) {
    (void)state;
    assert_true(parses("cc-" TRACE "-" SPAN "-01"));
    assert_true(parses("cc-" TRACE "-" SPAN "-01-what-the-future-brings"));
    assert_false(parses("cc-" TRACE "-" SPAN "-01.what-the-future-brings"));
    assert_false(parses("00-" TRACE "-" SPAN "-01-what-the-future-brings"));
    assert_false(parses("ff-" TRACE "-" SPAN "-01"));
}

static void test_malformed_ones_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        "00",
                                        "00-" TRACE "-" SPAN "-0",
                                        "00-" TRACE "-" SPAN "-0x",
                                        "00-" TRACE "-" SPAN ".01",
                                        "00-" TRACE "." SPAN "-01",
                                        "00." TRACE "-" SPAN "-01",
                                        "0x-" TRACE "-" SPAN "-01",
                                        "00-00000000000000000000000000000000-" SPAN "-01",
                                        "00-" TRACE "-0000000000000000-01",
                                        "00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01",
                                        "00-" TRACE "-B7AD6B7169203331-01",
                                        "00-" TRACE "-" SPAN "-0A",
                                        "00-ggf7651916cd43dd8448eb211c80319c-" SPAN "-01"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (parses(wrong[i])) fail_msg("read: %s", wrong[i]);
}

/* --- tracestate --- */

static const char *list_of(const char *first, const char *second) {
    static char list[UVHTTP__TRACESTATE_SIZE_MAX + 1];
    size_t size = 0;
    unsigned count = 0;
    bool valid = uvhttp__tracestate_add(uvhttp__str_from(first), list, &size, &count);
    if (valid && second) valid = uvhttp__tracestate_add(uvhttp__str_from(second), list, &size, &count);
    list[size] = '\0';
    return valid ? list : NULL;
}

static void test_fields_of_tracestate_are_one_list(void **state) {
    (void)state;
    assert_string_equal(list_of("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", NULL),
                        "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
    assert_string_equal(list_of("foo=1 , ,\tbar=2", "tenant@system/a*b_c-d=x y!"),
                        "foo=1,bar=2,tenant@system/a*b_c-d=x y!");
    assert_string_equal(list_of("", NULL), "");
}

static void test_a_malformed_member_spoils_the_list(void **state) {
    (void)state;
    static const char *const wrong[] = {"foo", "=1", "foo=", "Foo=1", "foo=1=2", "f oo=1", "foo=1;bar=2,b", "@a=1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (list_of(wrong[i], NULL)) fail_msg("accepted: %s", wrong[i]);
    assert_null(list_of("foo=1", "bar"));
    assert_null(list_of("foo=\x80", NULL));
}

static void test_a_list_has_32_members(void **state) {
    (void)state;
    char text[33 * 6] = "";
    for (int i = 0; i < 32; i++) strcat(text, i > 0 ? ",a=1" : "a=1");
    assert_string_equal(list_of(text, NULL), text);
    strcat(text, ",a=1");
    assert_null(list_of(text, NULL));
}

static void test_a_member_beyond_512_bytes_is_left_out(void **state) {
    (void)state;
    char text[3 * 256] = "a=", *at = text + 2;
    for (int i = 0; i < 250; i++) *at++ = 'x';
    strcpy(at, ",b=");
    for (at += 3; at < text + 510; at++) *at = 'y';
    assert_int_equal(strlen(list_of(text, NULL)), 510);
    strcpy(at, ",c=123456,d");
    assert_null(list_of(text, NULL)); /* what is left out is checked all the same */
    strcpy(at, ",c=123456");
    assert_int_equal(strlen(list_of(text, NULL)), 510);
}

/* --- here --- */

static void test_a_thread_works_for_the_innermost_scope(void **state) {
    (void)state;
    const uvhttp__trace_context_t one = {.flags = 1}, two = {.flags = 2};
    uvhttp__trace_scope_t outer, inner;
    uvhttp__trace_set_here(&one); /* without a scope nothing remembers it */
    assert_null(uvhttp__trace_here());
    uvhttp__trace_enter(&outer, NULL);
    assert_null(uvhttp__trace_here());
    uvhttp__trace_set_here(&one);
    assert_ptr_equal(uvhttp__trace_here(), &one);
    uvhttp__trace_enter(&inner, &two);
    assert_ptr_equal(uvhttp__trace_here(), &two);
    uvhttp__trace_leave(&inner);
    assert_ptr_equal(uvhttp__trace_here(), &one);
    uvhttp__trace_leave(&outer);
    assert_null(uvhttp__trace_here());
}

int main(void) {
    return RUN_TESTS(test_a_traceparent_is_read_and_written_alike, test_unknown_flags_are_dropped,
                     test_later_versions_may_have_more, test_malformed_ones_are_refused,
                     test_fields_of_tracestate_are_one_list, test_a_malformed_member_spoils_the_list,
                     test_a_list_has_32_members, test_a_member_beyond_512_bytes_is_left_out,
                     test_a_thread_works_for_the_innermost_scope);
}
