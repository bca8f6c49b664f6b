"""Owns: where our HTTP/1 and others (h11 0.16, httptools 0.6.4 with llhttp 9) differ on purpose, each with its reason. What is not here is
a defect of either. A request that all take is never another one: there is no difference to explain in that."""
import collections

Request = collections.namedtuple("Request", "method target minor body fields keep_alive")

# What we refuse and another one takes. Sections of RFC 9112, unless another one is named.
WE_REFUSE = {
    "UVHTTP_E_HTTP_BARE_LF": "section 2.2 lets a recipient take a bare LF for a line end, with which two can disagree on where a line ends",
    "UVHTTP_E_HTTP_BARE_CR": "section 2.2: a CR without LF; llhttp passes over those in front of a request",
    "UVHTTP_E_HTTP_CHUNK_EXTENSION": "section 7.1.1: tokens and quoted strings; others pass over any bytes",
    "UVHTTP_E_HTTP_CHUNK_SIZE": "section 7.1: digits; others take blanks behind them",
    "UVHTTP_E_HTTP_CONNECTION": "RFC 9110 section 7.6.1: a list of tokens; others look for words in it",
    "UVHTTP_E_HTTP_CONTENT_LENGTH": "section 6.3: one number in one field; h11 joins equal ones, as it may",
    "UVHTTP_E_HTTP_EXPECTATION": "RFC 9110 section 10.1.1: 417 for an expectation that is not known; others leave it to their caller",
    "UVHTTP_E_HTTP_HEADER_NAME": "section 5.1 and '_', which many behind us take for '-' in names that frame a message",
    "UVHTTP_E_HTTP_HEADER_VALUE": "RFC 9110 section 5.5: control characters; h11 takes all but NUL, CR and LF",
    "UVHTTP_E_HTTP_HOST": "section 3.2: 400 for none, several or a malformed one; llhttp leaves Host to its caller",
    "UVHTTP_E_HTTP_OBS_FOLD": "section 5.2: a server may refuse it",
    "UVHTTP_E_HTTP_TARGET": "section 3.2, RFC 3986: bytes that a target cannot have, or a form that the method cannot have",
    "UVHTTP_E_HTTP_TRAILER": "RFC 9110 section 6.5.1: a field that frames the message",
    "UVHTTP_E_HTTP_TRANSFER_ENCODING": "section 6.1: beside Content-Length, in HTTP/1.0, or not once and last",
    "UVHTTP_E_HTTP_TRANSFER_ENCODING_UNKNOWN": "section 6.1: 501 for codings that are not known",
    "UVHTTP_E_HTTP_VERSION": "section 2.3: others take HTTP/0.9, which has no version, and blanks in it",
    "UVHTTP_E_HTTP_VERSION_UNSUPPORTED": "RFC 9110 section 15.6.6: 505 for another major version",
}  # fmt: skip
# What we take and another one refuses.
THEY_REFUSE = {
    "HttpParserError: Invalid HTTP version": "RFC 9110 section 2.5: HTTP/1.2 is read as HTTP/1.1",
    "HttpParserInvalidMethodError: Invalid method encountered": "RFC 9110 section 9.1: any token is a method; llhttp has a list",
    "HttpParserInvalidMethodError: Expected space after method": "the same",
}


def compared(request):
    """Whether a connection closes is the server's business, not the parser's. h11 writes the names of codings in lower case."""
    fields = [(name, value.lower() if name == b"transfer-encoding" else value) for name, value in request.fields]
    return request._replace(fields=fields, keep_alive=None)


def explain(ours, our_end, theirs, their_end):
    """None: nothing does. Else "the same", or the reason for the first difference. What comes behind it is read by one of the two only,
    and where one still waits for bytes the other may know already that they cannot help."""
    if not all(compared(a) == compared(b) for a, b in zip(ours, theirs)):
        return None
    if len(theirs) > len(ours):
        if ours and not ours[-1].keep_alive and our_end == "end":
            return "behind a request that closes the connection"
        return WE_REFUSE.get(our_end)
    if len(theirs) < len(ours):
        if theirs and theirs[-1].minor == 0 and their_end == "end":
            return "h11 closes behind a request of HTTP/1.0, whatever it asks for"
        return THEY_REFUSE.get(their_end)
    return "the same"
