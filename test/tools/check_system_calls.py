#!/usr/bin/env python3
"""Owns: the check that every system call in src/ whose result nobody looks at stands, with the reason, in
docs/internals/system_calls.md, and that its tables name no call that is not made."""
import re
import sys

from source_text import ROOT, c_files, code_lines, report

DOC = "docs/internals/system_calls.md"
ANYWHERE = "src/**"
IGNORED_HEADING = "## Results that nobody looks at"
CALLS = """accept4 bind chmod clock_gettime clone close connect copy_file_range dup dup2 dup3 epoll_create1 epoll_ctl epoll_wait
eventfd fallocate fchmod fcntl fdatasync flock fstat fstatat fsync ftruncate getcwd getdents64 getpeername getrandom getrlimit
getrusage getsockname getsockopt inotify_add_watch inotify_init1 ioctl kill link listen lseek lstat madvise membarrier memfd_create
mkdir mkdirat mkostemp mkstemp mlock mmap mprotect mremap munlock munmap nanosleep clock_nanosleep open openat openat2 pidfd_open
pipe pipe2 poll posix_fadvise posix_fallocate ppoll prctl pread preadv preadv2 pthread_sigmask pwrite pwritev read readahead readlink
readlinkat readv recv recvfrom recvmsg rename renameat rename2 rmdir sched_setaffinity select send sendfile sendmmsg sendmsg sendto
setrlimit setsockopt shutdown sigaction sigaltstack signal sigpending sigprocmask sigtimedwait socket socketpair splice stat statx
symlink sync_file_range syscall timerfd_create timerfd_settime truncate unlink unlinkat write writev
io_uring_get_events io_uring_queue_init_params io_uring_register_buf_ring io_uring_register_eventfd io_uring_register_ring_fd
io_uring_submit io_uring_submit_and_get_events io_uring_submit_and_wait io_uring_submit_and_wait_timeout
io_uring_unregister_ring_fd io_uring_wait_cqe io_uring_wait_cqe_timeout io_uring_cq_eventfd_toggle""".split()
CALL = re.compile(r"(?<![\w.>])(" + "|".join(CALLS) + r")\s*\(")
CONTROL = re.compile(r"\b(if|for|while|switch)\s*$")


def closes_control(text, end):
    """Whether the parenthesis that ends at `end` is that of an if, for, while or switch: a statement follows."""
    depth = 0
    for at in range(end, -1, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            return bool(CONTROL.search(text[:at]))
    return False


def is_unused(text, at):
    before = text[:at].rstrip()
    before = re.sub(r"\(void\)\s*!?$", "", before).rstrip()
    if re.search(r"(?:^|[;{}]|\belse|\bdo)$", before):
        return True
    if before.endswith(":"):
        return bool(re.search(r"(?:case\s[^;?]*|default\s*|^\s*\w+\s*):$", before.split("\n")[-1]))
    return before.endswith(")") and closes_control(before, len(before) - 1)


def is_declaration(text, at):
    return bool(re.search(r"\b(?:int|ssize_t|void|long|char|bool)\s*\**\s*$", text[:at]))


def calls_of(text):
    """(name, line, whether its result is unused) of each call."""
    text = "\n".join("" if line.lstrip().startswith("#") else line for line in code_lines(text))
    for found in CALL.finditer(text):
        if not is_declaration(text, found.start()):
            yield found[1], text.count("\n", 0, found.start()) + 1, is_unused(text, found.start())


def rows_of(lines):
    """(calls, files) of each row of the tables that names calls: words in `backquotes` of the first two columns."""
    for line in lines:
        if not line.startswith("| `"):
            continue
        columns = line.split("|")
        yield re.findall(r"`([^`]+)`", columns[1]), re.findall(r"`(src/[^`]+)`", columns[2])


def pairs_of(rows):
    return {(name, file) for names, files in rows for name in names for file in files}


def stale(rows, made):
    """What a row names for nothing: a call that none of its files makes, a file that makes none of its calls."""
    for names, files in rows:
        if ANYWHERE in files:
            continue
        yield from (name for name in names if not any((name, file) in made for file in files))
        yield from (file for file in files if not any((name, file) in made for name in names))


def check(files, document):
    """files: (path, text)."""
    listed_text, _, ignored_text = document.partition(IGNORED_HEADING)
    ignored_rows = list(rows_of(ignored_text.splitlines()))
    ignored = pairs_of(ignored_rows)
    made, unused, problems = set(), set(), []
    for file, text in files:
        for name, line, is_ignored in calls_of(text):
            made.add((name, file))
            if is_ignored:
                unused.add((name, file))
                if (name, file) not in ignored and (name, ANYWHERE) not in ignored:
                    problems.append(f"{file}:{line}: nobody looks at the result of {name}: do, or say why not in {DOC}, '{IGNORED_HEADING[3:]}'")
    rows = list(rows_of(listed_text.splitlines())) + ignored_rows
    problems += [f"{DOC}: {what} stands in a row for nothing" for what in stale(rows, made)]
    problems += [f"{DOC}: {file} looks at the result of {name}: it belongs into the first table" for name, file in sorted((ignored & made) - unused)]
    return problems


def main():
    return report("system calls", check(c_files(ROOT, "src"), (ROOT / DOC).read_text(encoding="utf-8")))


if __name__ == "__main__":
    sys.exit(main())
