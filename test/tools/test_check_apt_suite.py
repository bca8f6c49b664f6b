"""Owns: the proof that apt is asked for another suite at this machine's own mirrors, and at no other."""
import unittest

from apt_suite import sources

DEB822 = """# a comment
Types: deb
# http://old.invalid/
URIs: http://mirror.invalid/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb deb-src
URIs: http://mirror.invalid/security
Suites: bookworm-security
Components: main
"""


def of(*files, suite="bullseye", kind="deb"):
    return sources(files, "bookworm", suite, kind)


class AptSuiteTest(unittest.TestCase):
    def test_both_archives_are_asked_for_the_other_suite_with_their_keys(self):
        self.assertEqual(of(("debian.sources", DEB822)), """Types: deb
URIs: http://mirror.invalid/debian
Suites: bullseye
Components: main
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb
URIs: http://mirror.invalid/security
Suites: bullseye-security
Components: main
""")  # fmt: skip

    def test_sources_of_this_suite_without_those_of_the_security_archive(self):
        self.assertEqual(of(("debian.sources", DEB822), suite="bookworm", kind="deb-src"), """Types: deb-src
URIs: http://mirror.invalid/debian
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/archive.gpg
""")  # fmt: skip

    def test_lines_of_the_old_form(self):
        text = ("# deb http://none.invalid bookworm main\n"
                "deb [arch=amd64 signed-by=/k.gpg] http://mirror.invalid/debian bookworm main non-free # one\n"
                "deb-src http://mirror.invalid/debian bookworm main\n")  # fmt: skip
        self.assertEqual(of(("sources.list", text)),
                         "Types: deb\nURIs: http://mirror.invalid/debian\nSuites: bullseye\nComponents: main\nSigned-By: /k.gpg\n")  # fmt: skip

    def test_a_key_that_is_part_of_the_file_comes_along(self):
        key = " -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINBGPZ\n -----END PGP PUBLIC KEY BLOCK-----"
        text = f"Types: deb\nURIs: http://mirror.invalid/debian\nSuites: bookworm\nComponents: main\nSigned-By:\n{key}\n"
        self.assertTrue(of(("debian.sources", text)).endswith(f"Signed-By: \n{key}\n"))

    def test_other_archives_are_not_asked(self):
        for text in ("Types: deb\nURIs: http://other.invalid\nSuites: nodistro\nComponents: main\n",
                     "Types: deb\nURIs: http://other.invalid\nSuites: bookworm\nComponents: stable\n",
                     "Types: deb\nURIs: http://other.invalid\nSuites: bookworm\nComponents: main\nEnabled: no\n",
                     "Types: deb\nURIs: http://other.invalid\nSuites: bookworm-backports\nComponents: main\n"):  # fmt: skip
            self.assertEqual(of(("other.sources", text)), "", text)


if __name__ == "__main__":
    unittest.main()
