"""Owns: the proof that the check of words finds what it should, where it is, and nothing else."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_words

PROSE = "answer->response,\nanswered->response,\ncomes whole->buffered,\nhost->tcp_server,\n"
NAMES = "answer->response,\nhand_over->flush,\nhot.h->hot_path.h,\nhost->tcp_server,\n"
ALLOWED = "# why\n\n* \\bHost\\b\nsrc/http1/* \\bhosts?\\b\n"


class WordsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.words = pathlib.Path(folder.name)
        for name, text in (("prose.dic", PROSE), ("names.dic", NAMES), ("allowed.txt", ALLOWED)):
            (self.words / name).write_text(text, encoding="utf-8")

    def found(self, path, *texts):
        """The findings in the texts, as files that differ in their last folder: a run of codespell for all."""
        folder, name = path.rsplit("/", 1) if "/" in path else ("", path)
        sources = {f"{folder}/{number}/{name}" if folder else path: text for number, text in enumerate(texts)}
        found = {path: [] for path in sources}
        for it in check_words.search(sources, self.words):
            found[it.path].append((it.line, it.term))
        found = [sorted(of_file) for of_file in found.values()]
        return found[0] if len(texts) == 1 else found

    def test_comments_messages_and_names_of_c_are_checked(self):
        wrong = ("/* The answer. */", "// an Answer", 'log("no answer");', "int answer;", "int f_answer_t;", "int ANSWER_MAX;", "x->answer = 1;")
        self.assertEqual(self.found("src/io/a.c", *["\n" + text + "\n" for text in wrong]), [[(2, "answer")]] * len(wrong))
        right = ("int answerable;\n", "/* answers */\n", "int hand, over;\n", 'f("\\nanswerable");\n')
        self.assertEqual(self.found("src/io/a.c", *right), [[]] * len(right))

    def test_escapes_of_messages_do_not_hide_words(self):
        self.assertEqual(self.found("src/io/a.c", 'f("x\\nanswer");\n'), [(1, "answer")])

    def test_literals_of_tests_are_data(self):
        self.assertEqual(self.found("test/unit/a.c", 'f("answer");\n'), [])
        self.assertEqual(self.found("test/integration/a.py", 'f("answer")\n'), [])

    def test_names_are_split_at_underscores_and_may_be_phrases(self):
        found = self.found("src/io/a.c", "uvhttp__hand_over(x);\n", '#include "base/hot_path.h"\n')
        self.assertEqual(found, [[(1, "hand_over")], [(1, "hot.h")]])

    def test_a_phrase_is_found_across_the_end_of_a_line(self):
        found = self.found("src/io/a.c", "/* A body that\n * comes\n * whole. */\n", "/* It comes\n *\n * whole. */\n")
        self.assertEqual(found, [[(2, "comes whole")], []])
        self.assertEqual(self.found("docs/a.md", "A body that\ncomes\nwhole.\n"), [(2, "comes whole")])

    def test_python_and_scripts_are_checked(self):
        text = '"""The answer."""\nx = "answer"\n# answered\ndef answer():\n    """\n    answer"""\n'
        self.assertEqual(self.found("bench/a.py", text), [(1, "answer"), (2, "answer"), (3, "answered"), (4, "answer"), (6, "answer")])
        self.assertEqual(self.found("dev", "# The answer.\n"), [(1, "answer")])

    def test_documents_are_prose_and_what_stands_in_backticks_is_names(self):
        text = "# Answered\n\nThe `hand_over` and [x](answer.md).\n\n```c\nhand_over();\n```\n\n| a | answer |\n|---|---|\n"
        self.assertEqual(self.found("docs/a.md", text), [(1, "answered"), (3, "hand_over"), (6, "hand_over"), (9, "answer")])

    def test_names_of_files_and_subjects_of_commits_are_checked(self):
        self.assertEqual(self.found("src/io/answer.c", "int x;\n"), [(1, "answer")])
        self.assertEqual(self.found("commits", "io: fix\nio: the host\n"), [(2, "host")])

    def test_a_word_is_allowed_in_its_context_only(self):
        self.assertEqual(self.found("src/io/a.c", "/* Host */\n", "/* host */\n"), [[], [(1, "host")]])
        self.assertEqual(self.found("src/http1/a.c", "/* host */ int host;\n", "int uvhttp__tcp_server;\n"), [[], [(1, "host")]])

    def test_finding_says_what_to_write(self):
        (finding,) = check_words.search({"docs/a.md": "It is answered.\n"}, self.words)
        self.assertEqual(str(finding), 'docs/a.md:1: "answered": response')
        self.assertEqual(finding.group, "answer")

    def test_numbers_may_neither_rise_nor_stay_when_they_fall(self):
        left = check_words.read_left("2 src/io answer\n1 docs comes whole\n")
        self.assertEqual(left, {("src/io", "answer"): 2, ("docs", "comes whole"): 1})
        self.assertEqual(list(check_words.compare(left, left)), [])
        for found in ({("src/io", "answer"): 3, ("docs", "comes whole"): 1}, {("src/io", "answer"): 2}, {**left, ("src/io", "host"): 1}):
            with self.subTest(found):
                self.assertEqual(len(list(check_words.compare(found, left))), 1)

    def test_dictionaries_of_the_project_can_be_read(self):
        for name in ("prose.dic", "names.dic"):
            self.assertGreater(len(check_words.Dictionary(check_words.WORDS / name).advice), 20)
        self.assertGreater(len(check_words.Allowed((check_words.WORDS / "allowed.txt").read_text(encoding="utf-8")).lines), 5)


if __name__ == "__main__":
    unittest.main()
