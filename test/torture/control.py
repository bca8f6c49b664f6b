"""Owns: the page of memory by which a test tells pattern_server what shall fail (control_t of fail_calls.c)."""
import mmap
import pathlib
import struct
import subprocess

NAME_SIZE, CALLS_MAX, FRAMES_MAX = 24, 128, 16
FIELDS = ["call", "error", "first", "last", "failed", "clock_offset", "base"]
ALLOCATOR = ["count", "live", "live_bytes", "fail_first", "fail_last", "alloc_failed"]
AT = NAME_SIZE * CALLS_MAX
FRAMES = AT + 8 * len(FIELDS)
COUNTS = FRAMES + 8 * FRAMES_MAX
SIZE = COUNTS + 8 * CALLS_MAX + 8 * len(ALLOCATOR)
OFFSETS = {name: AT + 8 * i for i, name in enumerate(FIELDS)}
OFFSETS |= {name: COUNTS + 8 * CALLS_MAX + 8 * i for i, name in enumerate(ALLOCATOR)}
UNTIL_RELIEF = 1 << 62


class Control:
    """Fails nothing until it is asked to. A call's name "alloc": the library's allocations."""

    def __init__(self, path, names=None):
        self.path = pathlib.Path(path)
        self.path.write_bytes(bytes(SIZE))
        with open(path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), SIZE)
        self.known = names
        self["call"] = -1

    def __getitem__(self, name):
        return struct.unpack_from("<q", self.page, OFFSETS[name])[0]

    def __setitem__(self, name, value):
        struct.pack_into("<q", self.page, OFFSETS[name], value)

    @property
    def names(self):
        """Of the calls, by their numbers; known once a program has started."""
        if not self.known:
            names = [self.page[i * NAME_SIZE : (i + 1) * NAME_SIZE].rstrip(b"\0").decode() for i in range(CALLS_MAX)]
            self.known = [name for name in names if name]
        return self.known

    def counts(self):
        """Calls since the last relieve(), by name; those that were made."""
        counts = struct.unpack_from(f"<{CALLS_MAX}Q", self.page, COUNTS)
        found = {name: counts[i] for i, name in enumerate(self.names) if counts[i]}
        allocations = self["count"] - self.counted_from
        return found | ({"alloc": allocations} if allocations else {})

    counted_from = 0

    def relieve(self):
        """Nothing fails, and calls are counted from here."""
        self["call"] = -1
        self["fail_first"] = 0
        self["failed"] = self["alloc_failed"] = 0
        self.page[COUNTS : COUNTS + 8 * CALLS_MAX] = bytes(8 * CALLS_MAX)
        self.counted_from = self["count"]

    def fail(self, call, number, error=0, until=None):
        """The number-th from here fails (1: the next), or all up to `until`."""
        self.relieve()
        last = until or number
        if call == "alloc":
            self["fail_last"] = self.counted_from + last
            self["fail_first"] = self.counted_from + number
            return
        self["first"], self["last"], self["error"] = number, last, error
        self["call"] = self.names.index(call)

    @property
    def has_failed(self):
        return bool(self["failed"] or self["alloc_failed"])

    def place(self, program):
        """Where the last failure was: functions of the program, innermost first."""
        frames = struct.unpack_from(f"<{FRAMES_MAX}Q", self.page, FRAMES)
        addresses = [hex(frame - self["base"] - 1) for frame in frames if frame > self["base"]]
        lines = subprocess.run(["addr2line", "-fs", "-e", program, *addresses], capture_output=True, text=True).stdout.splitlines()
        ours = ("fail_next", "note_frames", "next_of_page", "fails", "hook_malloc", "hook_calloc", "hook_realloc", "look_at_entries", "??")
        return " < ".join([name for name in lines[::2] if name not in ours and not name.startswith("__wrap_")][:5])
