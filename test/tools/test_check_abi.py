#!/usr/bin/env python3
"""Owns: tests of check_abi.py: each change that breaks a program is found, each that does not is let through."""
import unittest

import check_abi
import public_headers

BEFORE = """#define UVHTTP_VERSION "0.2.0"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef struct uvhttp_thing uvhttp_thing_t;
typedef enum uvhttp_kind { UVHTTP_ONE, UVHTTP_TWO } uvhttp_kind_t;
typedef struct uvhttp_str { const char *data; size_t size; } uvhttp_str_t;
typedef struct uvhttp_options { int first; int second; const char *third; } uvhttp_options_t;
typedef void (*uvhttp_end_cb)(uvhttp_thing_t *thing, int status, void *user);
int uvhttp_thing_new_sized(const uvhttp_options_t *options, size_t options_size, uvhttp_thing_t **thing);
void uvhttp_thing_end(uvhttp_thing_t *thing, uvhttp_kind_t kind, uvhttp_end_cb on_end, void *user);
uvhttp_str_t uvhttp_thing_name(const uvhttp_thing_t *thing);
int uvhttp_thing_log(uvhttp_thing_t *thing, const char *format, ...);
extern int uvhttp_threshold;
"""
GROWING = {"uvhttp_options"}
FROZEN = {"uvhttp_str": "a pointer and a size, everywhere"}


def compared(*changes):
    """abidiff's exit code and report for BEFORE against BEFORE with each (old, new) of the changes."""
    after = BEFORE
    for old, new in changes:
        assert after.count(old) == 1, old
        after = after.replace(old, new)
    return check_abi.compare(BEFORE, after, GROWING, "libuvhttp.so.0.2")


class Types(unittest.TestCase):
    def found(self, old, new, word):
        code, text = compared((old, new))
        self.assertNotEqual(code, 0, text)
        self.assertFalse(code & check_abi.ABIDIFF_TROUBLE, text)
        self.assertIn(word, text)

    def let_through(self, old, new):
        code, text = compared((old, new))
        self.assertEqual(code, 0, text)

    def test_the_same_headers_are_let_through(self):
        self.assertEqual(compared()[0], 0)

    def test_a_removed_function_is_found(self):
        self.found("uvhttp_str_t uvhttp_thing_name(const uvhttp_thing_t *thing);\n", "", "1 Removed")

    def test_a_removed_object_is_found(self):
        self.found("extern int uvhttp_threshold;\n", "", "1 Removed")

    def test_a_parameter_of_another_type_is_found(self):
        self.found("int uvhttp_thing_log(uvhttp_thing_t *thing", "int uvhttp_thing_log(uvhttp_str_t thing", "uvhttp_thing_log")

    def test_another_parameter_is_found(self):
        self.found("uvhttp_thing_name(const uvhttp_thing_t *thing)", "uvhttp_thing_name(const uvhttp_thing_t *thing, int at)", "parameter")

    def test_another_result_is_found(self):
        self.found("int uvhttp_thing_log", "long uvhttp_thing_log", "return type changed")

    def test_a_moved_field_is_found(self):
        self.found("int first; int second; const char *third;", "int first; const char *third; int second;", "offset changed")

    def test_a_field_in_the_middle_is_found(self):
        self.found("int first; int second;", "int first; int between; int second;", "offset changed")

    def test_a_removed_field_is_found(self):
        self.found("int first; int second;", "int first;", "deletion")

    def test_a_field_of_another_type_is_found(self):
        self.found("const char *third;", "double third;", "type of")

    def test_a_longer_frozen_struct_is_found(self):
        self.found("size_t size; }", "size_t size; int more; }", "type size changed")

    def test_a_changed_enumerator_is_found(self):
        self.found("UVHTTP_ONE, UVHTTP_TWO", "UVHTTP_ZERO, UVHTTP_ONE, UVHTTP_TWO", "from value")

    def test_a_callback_with_another_argument_is_found(self):
        self.found("int status, void *user);", "int status, int code, void *user);", "parameter")

    def test_a_new_function_is_let_through(self):
        self.let_through("extern int", "int uvhttp_thing_more(uvhttp_thing_t *thing);\nextern int")

    def test_a_field_at_the_end_of_a_struct_with_a_size_is_let_through(self):
        self.let_through("const char *third;", "const char *third; int fourth;")

    def test_a_field_at_the_end_is_let_through_with_a_tag_that_ends_in_s(self):
        tagged = BEFORE.replace("struct uvhttp_options {", "struct uvhttp_options_s {")
        longer = tagged.replace("const char *third;", "const char *third; int fourth;")
        code, text = check_abi.compare(tagged, longer, GROWING, "libuvhttp.so.0.2")
        self.assertEqual(code, 0, text)

    def test_an_enumerator_at_the_end_is_let_through(self):
        self.let_through("UVHTTP_ONE, UVHTTP_TWO", "UVHTTP_ONE, UVHTTP_TWO, UVHTTP_THREE")


class Structs(unittest.TestCase):
    def problems(self, text, frozen=FROZEN):
        return list(check_abi.check_structs(public_headers.parse(text), frozen))

    def found(self, old, new, word, frozen=FROZEN):
        self.assertEqual(BEFORE.count(old), 1)
        found = self.problems(BEFORE.replace(old, new), frozen)
        self.assertEqual(len(found), 1, found)
        self.assertIn(word, found[0])

    def test_opaque_sized_and_frozen_structs_are_let_through(self):
        self.assertEqual(self.problems(BEFORE), [])

    def test_options_without_their_size_are_found(self):
        self.found("const uvhttp_options_t *options, size_t options_size,", "const uvhttp_options_t *options,", "there is no size_t options_size")

    def test_a_tag_that_ends_in_s_is_the_same_struct(self):
        text = BEFORE.replace("struct uvhttp_options {", "struct uvhttp_options_s {")
        self.assertEqual(self.problems(text), [])
        self.assertIn("there is no size_t options_size", "".join(self.problems(text.replace("options, size_t options_size,", "options,"))))

    def test_options_by_value_are_found(self):
        self.found("uvhttp_thing_log(uvhttp_thing_t *thing,", "uvhttp_thing_log(uvhttp_options_t thing,", "passed by value")

    def test_a_struct_in_another_one_is_found(self):
        text = BEFORE.replace("typedef void", "typedef struct uvhttp_more { uvhttp_options_t inner; int last; } uvhttp_more_t;\ntypedef void")
        self.assertIn("would move", "".join(self.problems(text)))

    def test_a_struct_that_another_one_points_to_is_found(self):
        text = BEFORE.replace("const char *third;", "const char *third; const uvhttp_more_t *more;")
        text = text.replace("typedef struct uvhttp_options {", "typedef struct uvhttp_more { int last; } uvhttp_more_t;\ntypedef struct uvhttp_options {")
        self.assertIn("there is no size_t more_size", "".join(self.problems(text)))

    def test_a_result_by_value_is_found(self):
        self.found("uvhttp_str_t uvhttp_thing_name", "uvhttp_options_t uvhttp_thing_name", "returns struct uvhttp_options by value")

    def test_a_callback_with_a_struct_by_value_is_found(self):
        self.found("(*uvhttp_end_cb)(uvhttp_thing_t *thing, int status,", "(*uvhttp_end_cb)(uvhttp_options_t options, int status,", "a callback gets")

    def test_a_callback_with_a_pointer_is_let_through(self):
        text = BEFORE.replace("(*uvhttp_end_cb)(uvhttp_thing_t *thing,", "(*uvhttp_end_cb)(const uvhttp_options_t *options,")
        self.assertEqual(self.problems(text), [])

    def test_a_struct_that_knows_its_size_is_let_through(self):
        text = BEFORE.replace("int first;", "uint32_t struct_size; int first;").replace(" size_t options_size,", "")
        self.assertEqual(self.problems(text), [])

    def test_a_frozen_struct_that_is_gone_or_has_no_reason_is_found(self):
        found = self.problems(BEFORE, {"uvhttp_str": "short", "uvhttp_gone": "it was there once, in another release"})
        self.assertEqual(len(found), 2, found)


class Enumerators(unittest.TestCase):
    KEPT = {"UVHTTP_ONE": 0, "UVHTTP_TWO": 1}

    def problems(self, present):
        return list(check_abi.check_enumerators(self.KEPT, present, "0.2"))

    def test_the_same_are_let_through(self):
        self.assertEqual(self.problems(self.KEPT), [])

    def test_another_number_is_found(self):
        self.assertIn("is 2, and was 1", self.problems({**self.KEPT, "UVHTTP_TWO": 2})[0])

    def test_one_that_is_gone_is_found(self):
        self.assertIn("is gone", self.problems({"UVHTTP_ONE": 0})[0])

    def test_a_new_one_has_to_be_listed(self):
        self.assertIn("--update", self.problems({**self.KEPT, "UVHTTP_THREE": 2})[0])

    def test_numbers_are_read_as_the_compiler_counts_them(self):
        text = "enum { UVHTTP_A = 1 << 3, UVHTTP_B, UVHTTP_C = -4, UVHTTP_D };"
        self.assertEqual(public_headers.parse(text).enumerators, {"UVHTTP_A": 8, "UVHTTP_B": 9, "UVHTTP_C": -4, "UVHTTP_D": -3})

    def test_the_list_is_read(self):
        self.assertEqual(check_abi.read_enumerators("# A head.\nUVHTTP_E_NOMEM -2\nUVHTTP_OK 0\n"), {"UVHTTP_E_NOMEM": -2, "UVHTTP_OK": 0})


class Versions(unittest.TestCase):
    def test_before_1_0_a_minor_version_is_an_abi_of_its_own(self):
        self.assertEqual(check_abi.abi_version('#define UVHTTP_VERSION "0.2.3"'), "0.2")

    def test_from_1_0_on_a_major_version_is(self):
        self.assertEqual(check_abi.abi_version('#define UVHTTP_VERSION "1.4.0"'), "1")


class Migration(unittest.TestCase):
    """Names that a program has to change, and the page that has them."""

    def missing(self, old, new, page=""):
        self.assertEqual(BEFORE.count(old), 1)
        return list(check_abi.check_migration(BEFORE, BEFORE.replace(old, new), page))

    def test_what_stays_needs_no_row(self):
        self.assertEqual(list(check_abi.check_migration(BEFORE, BEFORE + "int uvhttp_more(void);\n", "")), [])

    def test_a_name_that_is_gone_needs_a_row(self):
        for old, new, name in (
            ("int uvhttp_thing_log(", "int uvhttp_thing_write(", "uvhttp_thing_log"),
            ("UVHTTP_ONE, UVHTTP_TWO", "UVHTTP_ONE", "UVHTTP_TWO"),
            ("extern int uvhttp_threshold;\n", "", "uvhttp_threshold"),
        ):
            (found,) = self.missing(old, new)
            self.assertIn(f"row for {name}:", found)
            self.assertEqual(self.missing(old, new, f"| `{name}` | something else |"), [])
            self.assertEqual(len(self.missing(old, new, f"{name} without the mark of a name")), 1)

    def test_another_type_needs_a_row(self):
        for old, new, name in (
            ("int uvhttp_thing_log(", "long uvhttp_thing_log(", "uvhttp_thing_log"),
            ("const uvhttp_thing_t *thing);", "const uvhttp_thing_t *thing, int at);", "uvhttp_thing_name"),
            ("UVHTTP_ONE, UVHTTP_TWO", "UVHTTP_ONE, UVHTTP_TWO = 7", "UVHTTP_TWO"),
        ):
            (found,) = self.missing(old, new)
            self.assertIn(f"row for {name}:", found)
            self.assertEqual(self.missing(old, new, f"`{name}`"), [])

    def test_a_member_needs_a_row_or_the_struct_has_one(self):
        for new in ("int first; const char *third;", "int first; long second; const char *third;"):
            (found,) = self.missing("int first; int second; const char *third;", new)
            self.assertIn("row for uvhttp_options.second:", found)
            self.assertEqual(self.missing("int first; int second; const char *third;", new, "`uvhttp_options_t.second`"), [])
            self.assertEqual(self.missing("int first; int second; const char *third;", new, "members of `uvhttp_options_t`"), [])

    def test_an_inline_function_over_an_exported_one_is_no_change(self):
        old = "int uvhttp_thing_log(uvhttp_thing_t *thing, const char *format, ...);\n"
        new = "static inline int uvhttp_thing_log(uvhttp_thing_t *thing, const char *format, ...) { (void)thing, (void)format; return 0; }\n"
        self.assertEqual(self.missing(old, new), [])

    def test_a_callback_with_a_name_is_the_same_type(self):
        old = "uvhttp_end_cb on_end, void *user);"
        new = "void (*on_end)(uvhttp_thing_t *thing, int status, void *user), void *user);"
        self.assertEqual(self.missing(old, new), [])

    def test_a_changed_release_is_found(self):
        self.assertEqual(list(check_abi.check_released(BEFORE, check_abi.digest(BEFORE))), [])
        self.assertEqual(len(list(check_abi.check_released(BEFORE + "\n", check_abi.digest(BEFORE)))), 1)


if __name__ == "__main__":
    unittest.main()
