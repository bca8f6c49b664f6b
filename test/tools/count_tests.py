#!/usr/bin/env python3
"""Owns: counting tests: prints "passed failed skipped" of a JUnit file that CTest or pytest wrote.

A CTest entry is a whole cmocka program; what counts are the tests in it."""
import re
import sys
import xml.etree.ElementTree


def count_case(case):
    """(passed, failed, skipped) of one <testcase>."""
    output = case.findtext("system-out") or ""

    def cmocka(word):
        return sum(int(n) for n in re.findall(rf"^\[ *{word} *\] (\d+) test\(s\)", output, flags=re.M))

    if case.find("failure") is not None or case.find("error") is not None:
        return cmocka("PASSED"), cmocka("FAILED") or 1, cmocka("SKIPPED")
    if case.find("skipped") is not None:
        return 0, 0, 1
    return cmocka("PASSED") or (0 if cmocka("SKIPPED") else 1), 0, cmocka("SKIPPED")


def count(root):
    return tuple(map(sum, zip((0, 0, 0), *map(count_case, root.iter("testcase")))))


if __name__ == "__main__":
    print(*count(xml.etree.ElementTree.parse(sys.argv[1]).getroot()))
