"""Owns: the proof that the source checks fail when they should."""
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_errors
import check_layering
import check_links
import check_names
import check_snippets
import check_style
import check_symbols
import check_system_calls
import count_tests


class LayeringTest(unittest.TestCase):
    def setUp(self):
        self.layering = check_layering.read_layers(
            "base:\nio: base\nconn: io base\nhttp1: (conn) base\nserver: *\n"
            "public types.h base\npublic tcp.h conn\npublic uvhttp.h server\n"
        )

    def problems(self, path, text):
        return self.layering.check_file(path, text)

    def test_arrows_are_allowed(self):
        text = '#include <uvhttp/types.h>\n#include "conn/a.h"\n#include "io/io.h"\n#include <string.h>\n#include "build_info.h"\n'
        self.assertEqual(self.problems("src/conn/a.c", text), [])
        self.assertEqual(self.problems("src/server/a.c", '#include "http1/http1.h"\n#include <uvhttp.h>\n'), [])

    def test_include_against_the_arrows_is_refused_with_a_way_out(self):
        (problem,) = self.problems("src/http1/a.c", '\n#include "io/io.h"\n')
        self.assertIn("src/http1/a.c:2: http1/ may not include io/io.h", problem)
        self.assertIn("The way out", problem)

    def test_public_header_of_a_higher_folder_is_refused(self):
        self.assertEqual(len(self.problems("src/io/a.c", "#include <uvhttp/tcp.h>\n")), 1)
        self.assertEqual(len(self.problems("src/io/a.c", "#include <uvhttp.h>\n")), 1)
        self.assertEqual(len(self.problems("include/uvhttp/types.h", "#include <uvhttp/tcp.h>\n")), 1)

    def test_header_without_an_owner_is_refused(self):
        self.assertEqual(len(self.problems("src/io/a.c", "#include <uvhttp/new.h>\n")), 1)
        self.assertEqual(len(self.problems("include/uvhttp/new.h", "")), 1)
        self.assertEqual(len(self.problems("src/new/a.c", "")), 1)

    def test_include_without_its_folder_is_refused(self):
        self.assertEqual(len(self.problems("src/io/a.c", '#include "io.h"\n')), 1)

    def test_engine_outside_io_is_refused(self):
        for line in ("#include <uv.h>", "#include <liburing.h>", "#include <linux/io_uring.h>", "uv_run(l, 0);",
                     "io_uring_submit(&r);", "#ifdef __linux__", "#if defined(_WIN32)", "#elif UVHTTP_WITH_URING"):  # fmt: skip
            with self.subTest(line):
                self.assertEqual(len(self.problems("src/conn/a.c", line + "\n")), 1)
                self.assertEqual(self.problems("src/io/a.c", line + "\n"), [])

    def test_public_header_pulls_in_no_engine(self):
        self.assertEqual(len(self.problems("include/uvhttp/tcp.h", "#include <uv.h>\n")), 1)

    def test_comments_and_strings_are_not_code(self):
        text = '/* uv_run(loop)\n#include "io/io.h"\n*/ // uv_close(h)\nconst char *s = "uv_run(";\n'
        self.assertEqual(self.problems("src/http1/a.c", text), [])

    def test_public_functions_of_a_folder_are_no_licence_to_include_it(self):
        self.assertEqual(len(self.problems("src/http1/a.c", '#include "conn/a.h"\n')), 1)

    def test_line_without_its_file_or_folder_is_refused(self):
        lines = "base:\nio: base gone\nload: (base)\npublic a.h base gone2\npublic b.h base\n"
        paths = ["src/base/a.c", "src/io/a.c", "tools/load/a.c", "include/uvhttp/a.h"]
        self.assertEqual(len(check_layering.read_layers(lines).check_lines(paths)), 3)
        self.assertEqual(check_layering.read_layers(lines).check_lines([*paths, "include/b.h"])[0].split()[4:], ["folder", "gone:", "drop", "it"])

    def test_files_that_include_each_other_are_refused(self):
        a, b = ("src/io/a.h", '#include "io/b.h"\n'), ("src/io/b.h", '#include "io/c.h"\n')
        self.assertEqual(check_layering.check_cycles([a, b, ("src/io/c.h", "")]), [])
        self.assertEqual(len(check_layering.check_cycles([a, b, ("src/io/c.h", '#include "io/a.h"\n')])), 1)

    def test_the_table_of_the_project_has_no_cycle(self):
        folders = check_layering.read_layers(check_layering.LAYERS.read_text(encoding="utf-8")).folders
        folders = {folder: {target.strip("()") for target in may} for folder, may in folders.items()}
        done = set()
        while len(done) < len(folders):
            ready = {f for f, may in folders.items() if f not in done and (may <= done or may == {"*"})}
            self.assertTrue(ready, f"cycle among {set(folders) - done}")
            done |= ready


class SymbolsTest(unittest.TestCase):
    LAYERS = "base:\nio: base\nroute: (io) base\npublic a.h base io\n"
    FILES = {
        "include/uvhttp/a.h": "X int uvhttp_up(void);\nX(1, 2) int uvhttp_down(int (*f)(void));\n",
        "src/base/b.h": 'extern "C" {\nvoid uvhttp__b(void);\nstatic inline void f(void) {\n    uvhttp__gone();\n}\n'
                        "extern const int uvhttp__table[4];\n}\n",
        "src/io/i.h": "struct uvhttp__i {\n    int x;\n};\n#define M \\\n    uvhttp__no(a)\nint uvhttp__i(struct uvhttp__i *i);\n",
    }  # fmt: skip
    OBJECTS = {
        "base/b.c": ({"uvhttp__b", "uvhttp_down", "uvhttp__table"}, set()),
        "io/i.c": ({"uvhttp_up", "uvhttp__i"}, {"uvhttp__b"}),
        "route/r.c": (set(), {"uvhttp_up", "uvhttp__b", "puts"}),
    }

    def problems(self, layers="", files=(), objects=()):
        layering = check_layering.read_layers(self.LAYERS + layers)
        files = {**self.FILES, **dict(files)}
        return list(check_symbols.Symbols(layering, files.items(), {**self.OBJECTS, **dict(objects)}).problems())

    def refused(self, word, **change):
        (problem,) = self.problems(**change)
        self.assertIn(word, problem)

    def test_what_is_true_passes(self):
        self.assertEqual(self.problems(), [])

    def test_symbol_of_another_folder_than_its_header_is_refused(self):
        self.refused("implemented in src/io/j.c", files={"src/base/c.h": "void uvhttp__c(void);"}.items(),
                     objects={"io/j.c": ({"uvhttp__c"}, set())})  # fmt: skip
        self.refused("implemented in src/route/s.c", files={"include/uvhttp/a.h": self.FILES["include/uvhttp/a.h"] + "int uvhttp_c(void);"},
                     objects={"route/s.c": ({"uvhttp_c"}, set())})  # fmt: skip

    def test_symbol_without_a_header_is_refused(self):
        self.refused("no header declares it", objects={"io/j.c": ({"uvhttp__j"}, set())})

    def test_declaration_in_a_source_is_refused(self):
        self.refused("include its header", files={"src/io/i.c": "void uvhttp__b(void);\n"})

    def test_upward_use_is_refused(self):
        self.refused("may not include io/", objects={"base/c.c": (set(), {"uvhttp__i"})})
        self.refused("may not include io/", objects={"route/s.c": (set(), {"uvhttp__i"})})

    def test_struct_of_a_folder_above_is_refused(self):
        self.refused("struct uvhttp__i", files={"src/base/c.h": "struct uvhttp__i *x;\n"})

    def test_implementer_that_implements_nothing_is_refused(self):
        self.refused("route implements nothing", layers="public a.h base io route\n")

    def test_cycle_of_files_is_refused(self):
        objects = {"io/j.c": (set(), {"uvhttp__k"}), "io/k.c": ({"uvhttp__k"}, {"uvhttp__j"})}
        objects["io/j.c"] = ({"uvhttp__j"}, {"uvhttp__k"})
        files = {"src/io/j.h": "void uvhttp__j(void); void uvhttp__k(void);"}
        self.refused("cycle of files: io/j.c io/k.c", files=files, objects=objects)
        objects["io/k.c"] = ({"uvhttp__k"}, set())
        self.assertEqual(self.problems(files=files, objects=objects), [])


class NamesTest(unittest.TestCase):
    TABLE = "| file | owns |\n|---|---|\n"
    FILES = {"src/io/a.c": "void uvhttp__a(void) {}\nstatic int b(int x) {}\n", "src/io/a.h": "void uvhttp__a(void);\n", "src/io/c.c": "",
             "docs/internals/io.md": TABLE + "| `*.c` | all |\n"}  # fmt: skip

    def problems(self, **files):
        named = {"src/io/d.c": files["comment"]} if "comment" in files else {"docs/d.md": files["document"]}
        return list(check_names.Names(self.FILES | named).problems())

    def test_what_is_there_may_be_named(self):
        for text in ("`io/a.c`", "`src/io/a.h`", "`io/*.c`", "`uvhttp__a`", "`uvhttp__a(x)`", "`uvhttp__http1_*`", "a.d `a.txt`",
                     "`uvhttp_x`, `UVHTTP_E_`", "```c\nuvhttp__gone();\n```", "| file | function |\n|---|---|\n| `io/a.c` | `uvhttp__a`, `b` |"):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(self.problems(document=text + "\n"), [])
        self.assertEqual(self.problems(comment="/* As in io/a.c and <uv/unix.h>. */\nf(\"gone.c\");\n"), [])

    def test_what_is_gone_is_refused(self):
        for text in ("`io/gone.c`", "`conn/a.c`", "`gone/*.c`", "`uvhttp__gone`", "`uvhttp__gone(x)`", "`uvhttp_gone`", "`UVHTTP_GONE`",
                     "| file | function |\n|---|---|\n| `io/c.c` | `uvhttp__a` |",
                     "| file | function |\n|---|---|\n| `io/a.c` | `bb` |"):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(len(self.problems(document="\n" + text + "\n")), 1)
        self.assertEqual(self.problems(comment="\n/* As\n * in server/session.c. */\n"), ["src/io/d.c:2: there is no file server/session.c"])

    def unlisted(self, *rows, page="io"):
        files = {"src/io/a.c": "", "src/io/b.c": "", "src/conn/a.c": "", "docs/internals/conn.md": self.TABLE + "| `a.c` | x |\n"}
        return len(list(check_names.Names(files | {f"docs/internals/{page}.md": self.TABLE + "".join(rows)}).problems()))

    def test_every_source_file_is_in_a_table(self):
        for rows in (["| `a.c`, `b.c` | x |\n"], ["| `a.c` | x |\n", "| `src/io/b.c` | x |\n"], ["| `io/*.c` | x |\n"]):
            self.assertEqual(self.unlisted(*rows), 0)
        self.assertEqual(self.unlisted("| `a.c` | what `b.c` needs |\n"), 1)
        self.assertEqual(self.unlisted("| `a.c`, `b.c` | x |\n", page="http1"), 2)
        self.assertEqual(self.unlisted("| `io/a.c`, `io/b.c` | x |\n", page="http1"), 0)

    def test_something_counts_each_counter(self):
        table = '    X(a, TOTAL, a, "", "A") \\\n    X(http2_b, BYTES_TOTAL, b, "", "B") \\\n    X(c, GAUGE, c, "", "X(c)") \\\n    X(d, TOTAL, d, "", "D")\n'
        files = self.FILES | {"src/obs/counters.h": table, "src/io/a.c": "add(counters, a, 1); read(UVHTTP__COUNTER_d); aa\n    X(b) \\\n"}
        self.assertEqual(list(check_names.Names(files).problems()), ["src/obs/counters.h: nothing counts c"])

    TESTS = {"test/integration/test_a.py": "def test_b(server):\n    pass\n# test_c(\n", "test/unit/io/test_d.c": "test_e(void **state)\ntest_f(void **state)\n{test_e}\n"}

    def promised(self, cell):
        document = f"| what | held by |\n|---|---|\n| x | {cell} |\n"
        return list(check_names.Names(self.TESTS | {"docs/d.md": document}).problems())

    def test_a_promise_is_held_by_tests_that_are_there(self):
        for cell in ("`test_a.py::test_b`", "`io/test_d.c::test_e`", "all of `test_a.py`", "`test_a.py::test_b`, `test_d.c::test_e`"):
            with self.subTest(cell):
                self.assertEqual(self.promised(cell), [])
        for cell in ("", "care", "`test_b`", "`test_a.py::test_c`", "`test_gone.py::test_b`", "`test_d.c::test_f`", "`test_a.py::test_e`"):
            with self.subTest(cell):
                self.assertEqual(len(self.promised(cell)), 1)


class StyleTest(unittest.TestCase):
    def test_a_public_function_names_its_thread(self):
        head = "/* Owns: a. */\n"
        self.assertEqual(check_style.check_file("include/uvhttp/a.h", head + "UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_a(void);\n"), [])
        (problem,) = check_style.check_file("include/uvhttp/a.h", head + "UVHTTP_EXPORT int uvhttp_a(void);\n")
        self.assertIn("include/uvhttp/a.h:2: ", problem)

    def test_good_file_passes(self):
        self.assertEqual(check_style.check_file("src/io/a.c", "/* Owns: a. */\nint f(void) { return pool->free(x); }\n"), [])

    def test_each_rule_fails(self):
        head = "/* Owns: a. */\n"
        for text in ("int x;\n", "/* about */\n", head + "x = malloc(1);\n", head + "strcpy(a, b);\n", head + "abort();\n",
                     head + "c = toupper(c);\n",
                     head + 'int n = snprintf(out, sizeof out,\n    "%.1f", x);\n', head + 'UVHTTP_LOG_INFO("%g", x);\n',
                     head + "// TO" + "DO later\n", head + "\n" * check_style.LIBRARY_LINES_MAX):  # fmt: skip
            with self.subTest(text[:40]):
                self.assertEqual(len(check_style.check_file("src/io/a.c", text)), 1)

    def test_floating_numbers_are_formatted_in_the_c_locale(self):
        head = "/* Owns: a. */\n"
        for text in ('uvhttp__format(out, 9, "%.1f", x);\n', 'snprintf(out, 9, "%d", x);\n', 'static const char script[] = "%.0f";\n'):
            self.assertEqual(check_style.check_file("src/io/a.c", head + text), [])

    def test_functions_are_measured_from_type_to_brace(self):
        text = "#define F(x) \\\n    { x }\nstruct a {\n    int b;\n};\nstatic int\nf(int a,\n  int b) {\n    if (a) {\n    }\n}\nint g(void) { return 0; }\n"
        self.assertEqual(list(check_style.functions(text)), [(6, 6), (12, 1)])
        self.assertEqual(list(check_style.functions('extern "C" {\nint h(void) {\n}\nint x[] = {1,\n2};\n}\n')), [(2, 2)])

    def test_functions_that_are_too_long_are_refused(self):
        def one(lines):
            return "void f(void) {\n" + "x();\n" * (lines - 2) + "}\n"

        self.assertEqual(check_style.check_functions([("a.c", one(60) + one(8) * 10)]), [])
        self.assertEqual(len(check_style.check_functions([("a.c", one(61) + one(8) * 10)])), 1)
        self.assertEqual(len(check_style.check_functions([("a.c", one(9) * 10)])), 1)
        self.assertEqual(len(check_style.check_functions([("a.c", one(8) * 10 + one(21) * 3)])), 1)

    def test_only_the_allocator_allocates(self):
        text = "/* Owns: a. */\nreturn malloc(size);\n"
        self.assertEqual(check_style.check_file("src/base/alloc.c", text), [])
        self.assertEqual(len(check_style.check_file("src/base/slab.c", text)), 1)
        self.assertEqual(len(check_style.check_file("src/base/alloc.c", text.replace("return malloc", "strcpy"))), 1)

    def test_programs_may_print(self):
        self.assertEqual(check_style.check_file("examples/a.c", 'int main(void) { puts("x"); }\n'), [])


class SnippetsTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.root = pathlib.Path(self.directory.name)
        (self.root / "a.c").write_text("/* Owns: a. */\nint a;\n    int b;\n    int c;\n", encoding="utf-8")

    def count(self, text):
        return len(check_snippets.check_document("x.md", text, self.root))

    def test_extracts_and_whole_files_pass(self):
        self.assertEqual(self.count("<!-- snippet: a.c -->\n```c\nint b;\nint c;\n```\n"), 0)
        self.assertEqual(self.count("<!-- snippet: a.c whole -->\n```c\nint a;\n    int b;\n    int c;\n```\n"), 0)
        self.assertEqual(self.count("```sh\n./dev run\n```\n"), 0)

    def test_what_differs_is_refused(self):
        self.assertEqual(self.count("<!-- snippet: a.c -->\n```c\nint b;\nint d;\n```\n"), 1)
        self.assertEqual(self.count("<!-- snippet: a.c whole -->\n```c\nint a;\n```\n"), 1)
        self.assertEqual(self.count("<!-- snippet: b.c -->\n```c\nint a;\n```\n"), 1)
        self.assertEqual(self.count("```c\nint a;\n```\n"), 1)

    def test_update_makes_it_pass(self):
        text = check_snippets.update("<!-- snippet: a.c whole -->\n```c\nold\n```\n", self.root)
        self.assertEqual(self.count(text), 0)


class LinksTest(unittest.TestCase):
    def problems(self, **pages):
        files = {"docs/README.md": "[a](guide/a.md)", "docs/guide/a.md": "# A page\n\n## Part\n\n## Part\n", "src/a.c": ""}
        return list(check_links.Links(files | {f"docs/guide/{name}.md": text for name, text in pages.items()}).problems())

    def test_links_that_lead_somewhere_pass(self):
        for text in ("[x](../README.md)", "[x](#a)\n## A", "[`x`[1]](b.md#part-1)", "[x](../../src/a.c)", "[x](../../src)", "![x](b.md)",
                     "[x](https://example.org/b.md)", "`[x](none.md)`", "```sh\n[x](none.md)\n```"):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(self.problems(a="[b](b.md)\n" + text, b="## Part\n## `Part`\n"), [])

    def test_links_that_lead_nowhere_are_refused(self):
        for text in ("[x](none.md)", "[x](../../../x.md)", "[x](#b)\n## A", "[x](b.md#part-2)", "[x](../../src/b.c)", "![x](x.svg)",
                     '<img src="x.svg" alt="x">', "[`x`](none.md)", "`x` [x](none.md) `x`"):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(len(self.problems(a="[b](b.md)\n" + text, b="## Part\n## `Part`\n")), 1)

    def test_a_page_that_no_page_links_is_refused(self):
        self.assertEqual(len(self.problems(b="", c="")), 2)
        self.assertEqual(len(self.problems(b="[c](c.md)", c="[b](b.md)")), 2)
        self.assertEqual(self.problems(a="[b](b.md)", b="[c](c.md)", c=""), [])

    def test_a_link_to_the_folder_reaches_generated_reports_and_nothing_else(self):
        files = {"docs/README.md": "[r](performance/reports) [g](guide)", "docs/performance/reports/1/a.md": "", "docs/guide/a.md": ""}
        (problem,) = check_links.Links(files).problems()
        self.assertIn("docs/guide/a.md", problem)


class SystemCallsTest(unittest.TestCase):
    LISTED = "| `send` | `src/io/a.c` | EAGAIN | again | - |\n"
    IGNORED = check_system_calls.IGNORED_HEADING + "\n| `shutdown` | `src/io/b.c` | why |\n| `close` | `src/**` | why |\n"

    def count(self, a, b="void f(void) { shutdown(1, 2); }"):
        files = [("src/io/a.c", a), ("src/io/b.c", b)]
        return len(check_system_calls.check(files, self.LISTED + self.IGNORED))

    def test_a_result_that_is_used_or_justified_passes(self):
        for text in ("n = send(f);", "if (send(f) < 0) x();", "do {\n} while (send(f) < 0);", "return send(f);",
                     "x(send(f));", "n = a ? send(f) : 0; close(f);", "s->send(f); n = send(f);", "n = 1 +\n    send(f);"):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(self.count(text), 0)

    def test_a_result_that_nobody_looks_at_fails(self):
        for text in ("send(f);", "(void)send(f);", "(void)!send(f);", "if (x)\n    send(f);", "else send(f);", "for (;;) send(f);",
                     "while (x) { send(f); }", "case 1: send(f);", "if (x(1))\n    (void)send(f);"):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(self.count(text), 1)

    def test_a_row_without_its_call_fails(self):
        self.assertEqual(self.count("f();"), 2)
        self.assertEqual(self.count("n = send(f);", "if (shutdown(1, 2) < 0) x();"), 1)


class ErrorsTest(unittest.TestCase):
    SOURCES = (
        "static int check(int a) {\n    if (a == UVHTTP_E_EOF) return UVHTTP_E_STATE;\n    return 0;\n}\n"
        "int uvhttp_one(int a) {\n    int status = check(a);\n    return status;\n}\n"
    )

    def problems(self, header, sources=SOURCES, kept_back=None):
        read = check_errors.Sources([("src/a/a.c", sources)], kept_back or {})
        found = [*check_errors.undocumented(read, check_errors.Comments([("one.h", header)])), *check_errors.superfluous(read)]
        return [problem.split(" does not name ")[-1] for problem in found]

    def test_a_code_of_a_function_that_is_called_is_missed(self):
        self.assertEqual(self.problems("/** Returns 0. */\nint uvhttp_one(int a);"), ["UVHTTP_E_STATE (a/a.c:check)"])
        self.assertEqual(self.problems("/** Returns 0 or UVHTTP_E_STATE. */\nint uvhttp_one(int a);"), [])
        self.assertEqual(self.problems("/** Returns 0 or UVHTTP_E_ST*. */\nint uvhttp_one(int a);"), [])

    def test_a_code_through_a_pointer_is_missed(self):
        text = "static int run(int a) {\n    return UVHTTP_E_IO;\n}\nstatic const ops_t ops = {.run = run};\n"
        text += "int uvhttp_one(int a) {\n    return it->ops->run(a);\n}\n"
        self.assertEqual(self.problems("int uvhttp_one(int a);", text), ["UVHTTP_E_IO (a/a.c:run)"])

    def test_a_result_that_is_only_compared_is_none(self):
        text = "int uvhttp_one(int a) {\n    if (check(a) != UVHTTP_E_IO) close(a);\n    return 0;\n}\n"
        self.assertEqual(self.problems("int uvhttp_one(int a);", text), [])

    def test_comments_of_a_section_of_a_file_and_of_another_function_count(self):
        for header in ("/* --- a ---\n * UVHTTP_E_STATE */\nint uvhttp_one(int a);",
                       "/* Rules for all functions: UVHTTP_E_STATE */\n/* --- a --- */\n/** One. */\nint uvhttp_one(int a);",
                       "/** Returns as uvhttp_two does. */\nint uvhttp_one(int a);\n/** UVHTTP_E_STATE */\nint uvhttp_two(int a);",
                       "/** As uvhttp_two\n * does. */\nint uvhttp_one(int a);\n/** UVHTTP_E_STATE */\nint uvhttp_two(int a);"):  # fmt: skip
            with self.subTest(header):
                self.assertEqual(self.problems(header), [])
        self.assertEqual(len(self.problems("/* --- a ---\n * UVHTTP_E_STATE */\n/* --- b --- */\nint uvhttp_one(int a);")), 1)
        self.assertEqual(len(self.problems("/** UVHTTP_E_STATE */\nint uvhttp_two(int a);\n/** */\nint uvhttp_one(int a);")), 1)

    def test_an_inline_function_does_not_document_what_it_calls(self):
        text = "/** UVHTTP_E_STATE */\nstatic inline int uvhttp_two(int a) {\n    return (int)uvhttp_one(a);\n}\n"
        self.assertEqual(len(self.problems("/** */\nint uvhttp_one(int a);\n" + text)), 1)

    def test_a_newer_program_of_a_sized_function_is_known(self):
        text = "int uvhttp_{}(int a) {{\n    return UVHTTP_E_UNSUPPORTED;\n}}\n"
        self.assertEqual(self.problems("int uvhttp_one_sized(int a);", text.format("one_sized")), [])
        self.assertEqual(len(self.problems("int uvhttp_one(int a);", text.format("one"))), 1)

    def test_a_code_that_is_kept_back_is_one_that_came(self):
        header = "/** Returns 0. */\nint uvhttp_one(int a);"
        self.assertEqual(self.problems(header, kept_back={("src/a/a.c", "uvhttp_one"): {"UVHTTP_E_STATE": "why"}}), [])
        for where, code in (("uvhttp_one", "UVHTTP_E_IO"), ("gone", "UVHTTP_E_STATE")):
            self.assertEqual(len(self.problems(header, kept_back={("src/a/a.c", where): {code: "why"}})), 2)


class CountTest(unittest.TestCase):
    def test_cmocka_programs_count_their_tests(self):
        case = "<testcase>{1}<system-out>{0}</system-out></testcase>"
        passed, failed = "[  PASSED  ] {} test(s).\n", "[  FAILED  ] {} test(s), listed below:\n"
        root = xml.etree.ElementTree.fromstring(
            "<testsuite>"
            + case.format(passed.format(3), "")
            + case.format(passed.format(2) + failed.format(4), "<failure/>")
            + case.format("crash", "<failure/>")
            + case.format("not cmocka", "")
            + case.format("", "<skipped/>")
            + "</testsuite>"
        )
        self.assertEqual(count_tests.count(root), (6, 5, 1))


if __name__ == "__main__":
    unittest.main()
