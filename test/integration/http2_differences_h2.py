"""Owns: where our HTTP/2 core and PyPI h2 (4.3) differ on purpose, each with its reason. What is not here is a defect of either."""
PROTOCOL, INTERNAL, FLOW, SETTINGS_TIMEOUT, CLOSED, SIZE, REFUSED, CANCEL, COMPRESSION = range(1, 10)
# UVHTTP_E_HTTP2_..., _HTTP_EXPECTATION, _HPACK_TABLE_SIZE
HEAD_PATH, HEAD_AUTHORITY, HEAD_NAME, HEAD_VALUE, HEAD_LENGTH, HEAD_EXPECTATION, HEAD_TABLE_SIZE = -836, -837, -839, -840, -843, -122, -824
HEAD_TRAILER = -116  # UVHTTP_E_HTTP_...
END, PEER_GOAWAY, SENT_RESET, SENT_GOAWAY = 4, 6, 7, 8


class Difference:
    """A frame, and what both have made of it."""

    def __init__(self, ours, theirs, fault, messaging):
        self.ours, self.theirs, self.fault, self.messaging = ours.log, theirs, fault, messaging
        self.head_code, self.frame, self.streams = ours.head_code, ours.frame, ours.streams
        self.size, self.type, self.flags = int.from_bytes(self.frame[:3], "big"), self.frame[3], self.frame[4]
        self.id = int.from_bytes(self.frame[5:9], "big") & 0x7FFFFFFF
        self.text = str(fault or "")
        self.our_goaway, self.their_goaway = self.code(self.ours, SENT_GOAWAY), self.code(self.theirs, SENT_GOAWAY)
        self.our_reset, self.their_reset = self.code(self.ours, SENT_RESET), self.code(self.theirs, SENT_RESET)

    @staticmethod
    def code(log, wanted):
        return next((value for kind, _, value in log if kind == wanted), None)


ENDS, AGREES = {}, {}  # name: whether it explains; from there on both are in other states, or in the same


def ends(explains):
    ENDS[explains.__name__] = explains
    return explains


def agrees(explains):
    AGREES[explains.__name__] = explains
    return explains


def explain(difference):
    """None: nothing does, or there is no difference. Else the name of what does."""
    if difference.ours == difference.theirs and difference.fault is None:
        return None
    return next((name for name, explains in {**ENDS, **AGREES}.items() if explains(difference)), None)


@ends
def both_end_the_connection(is_):
    """What was shown before the error does not matter."""
    return is_.our_goaway and is_.our_goaway == is_.their_goaway


@ends
def stream_errors_end_the_connection_there(is_):
    """h2 makes nearly every error of a stream one of the connection, as section 5.4.1 allows."""
    return is_.our_goaway is None and is_.our_reset and is_.their_goaway


@ends
def a_goaway_of_the_client_ends_the_connection_there(is_):
    """Section 6.8: streams that are open continue. h2 reads nothing any more."""
    return is_.our_goaway is None and "ConnectionState.CLOSED" in is_.text


@ends
def a_block_that_cannot_be_decoded(is_):
    """Section 4.3: COMPRESSION_ERROR. h2 says PROTOCOL_ERROR."""
    return is_.our_goaway == COMPRESSION and is_.their_goaway == PROTOCOL and "decoding header block" in is_.text


@ends
def another_code_for_the_connection(is_):
    """Of several faults either may be said (section 5.4.1); h2 decodes a block before it looks at the stream."""
    pairs = {(CLOSED, PROTOCOL), (PROTOCOL, SIZE), (SIZE, PROTOCOL), (FLOW, PROTOCOL), (PROTOCOL, FLOW), (PROTOCOL, CLOSED), (COMPRESSION, PROTOCOL)}
    return (is_.our_goaway, is_.their_goaway) in pairs


@ends
def a_third_table_size(is_):
    """RFC 7541 section 4.2 knows two size updates at the start of a block; PyPI hpack takes any number."""
    return is_.our_goaway == COMPRESSION and is_.their_goaway is None and is_.head_code == HEAD_TABLE_SIZE


@ends
def streams_of_the_server(is_):
    """Sections 5.1.1, 6.4, 8.4: known from the head of the frame. h2 waits for the end of the block, or ignores RST_STREAM."""
    blocks = is_.type in (1, 5) and not is_.flags & 4
    return is_.our_goaway == PROTOCOL and is_.their_goaway is None and is_.fault is None and (blocks or is_.type == 3)


@ends
def frames_that_we_ignore(is_):
    """An ALTSVC of a client (RFC 7838 section 4), an increment of 0 for a stream that is closed (section 5.1): h2 looks at them."""
    return is_.our_goaway is None and is_.their_goaway and is_.type in (8, 10)


@ends
def padding_that_fills_a_frame(is_):
    """Section 6.2: padding may leave an empty fragment. hyperframe refuses it."""
    return is_.our_goaway is None and is_.type == 1 and "invalid padding" in is_.text


@ends
def an_interim_status_in_a_request(is_):
    """Section 8.3.1. h2 looks at :status although it is configured not to look at fields."""
    return not is_.messaging and ("informational responses" in is_.text or "INFORMATIONAL" in is_.text)


@ends
def data_behind_the_end_of_a_stream(is_):
    """Section 5.1, closed by END_STREAM, and 5.1.1, skipped: an error of the connection. h2 resets the stream."""
    return is_.type == 0 and is_.our_goaway in (CLOSED, PROTOCOL) and is_.their_reset == CLOSED and is_.fault is None


@ends
def priority_update_of_no_request(is_):
    """RFC 9218 section 7.1: an error of the connection for stream 0, and for one that only a server opens. h2 does not know it."""
    return is_.type == 16 and is_.our_goaway in (PROTOCOL, SIZE) and is_.their_goaway is None


@ends
def a_stream_that_depends_on_itself(is_):
    """RFC 7540 section 5.3.1, which RFC 9113 leaves out: on a stream that is closed nothing comes of it here."""
    return is_.our_goaway is None and "may not depend on itself" in is_.text


@ends
def values_that_h2_leaves_to_its_caller(is_):
    """Section 8.3.1: an authority, a host or a :path with bytes that RFC 3986 does not allow; a name that is no token (RFC 9110
    section 5.1); an Expect that is not known (417); fields that trailers must not have (RFC 9110 section 6.5.1)."""
    codes = (HEAD_PATH, HEAD_AUTHORITY, HEAD_NAME, HEAD_VALUE, HEAD_EXPECTATION, HEAD_TRAILER)
    return is_.messaging and is_.our_goaway is None and is_.our_reset == PROTOCOL and is_.head_code in codes and is_.fault is None


@ends
def a_length_that_h2_does_not_check(is_):
    """Section 8.1.1: h2 looks at the first content-length alone, and at none of a request that ends with its head or trailers."""
    lengths = is_.head_code == HEAD_LENGTH or (is_.head_code == 0 and (END, is_.id, 0) in is_.theirs and is_.type in (1, 9))
    return is_.messaging and is_.our_reset == PROTOCOL and lengths and is_.fault is None


@ends
def content_length_without_messaging(is_):
    """Section 8.1.1: h2 looks at it although it is configured not to look at fields."""
    return not is_.messaging and is_.our_goaway is None and ("content-length" in is_.text or "InvalidBodyLength" in is_.text)


@ends
def settings_that_h2_does_not_know(is_):
    """RFC 9218 section 2.1: SETTINGS_NO_RFC7540_PRIORITIES (9) is 0 or 1. Section 6.5.3: each entry is checked; h2 looks at the
    last one of each setting."""
    entries = [is_.frame[at + 1] for at in range(9, len(is_.frame) - 5, 6)]
    unlike = 9 in entries or len(set(entries)) < len(entries)
    return is_.type == 4 and is_.our_goaway and is_.their_goaway is None and unlike


@ends
def windows_of_streams_that_are_closed(is_):
    """Section 6.9.2: SETTINGS_INITIAL_WINDOW_SIZE changes the windows of streams that are open, and none is. h2 counts closed ones too."""
    return is_.type == 4 and not is_.streams and is_.our_goaway is None and is_.their_goaway == FLOW


@agrees
def frames_behind_a_reset(is_):
    """Section 5.1: frames on a stream that was reset may be ignored. h2 resets it again."""
    return is_.fault is None and is_.theirs - is_.ours == {(SENT_RESET, is_.id, CLOSED): 1} and not is_.ours - is_.theirs
