/* Owns: tests of what decides where a request ends (RFC 9112 section 6), with the known ways of request smuggling. */
#include "support/http1_feed.h"
#include "support/run.h"

#define POST "POST / HTTP/1.1\r\nHost: a\r\n"
#define POST10 "POST / HTTP/1.0\r\n"
#define CL UVHTTP_E_HTTP_CONTENT_LENGTH
#define TE UVHTTP_E_HTTP_TRANSFER_ENCODING
#define TE_UNKNOWN UVHTTP_E_HTTP_TRANSFER_ENCODING_UNKNOWN
#define NAME UVHTTP_E_HTTP_HEADER_NAME
#define VALUE UVHTTP_E_HTTP_HEADER_VALUE

static void test_content_length(void **state) {
    (void)state;
    static const feed_vector_t vectors[] = {
        V(POST "Content-Length: 0\r\n\r\n", 0),
        V(POST "Content-Length:5\r\n\r\n", 0),
        V(POST "Content-Length: \t5 \r\n\r\n", 0),
        V(POST "Content-Length: 00000000000000000000000005\r\n\r\n", 0),
        V(POST "Content-Length: 9223372036854775807\r\n\r\n", 0),
        V(POST "Content-Length: 9223372036854775808\r\n\r\n", CL),
        V(POST "Content-Length: 18446744073709551615\r\n\r\n", CL),
        V(POST "Content-Length: 18446744073709551616\r\n\r\n", CL),
        V(POST "Content-Length: 18446744073709551621\r\n\r\n", CL),
        V(POST "Content-Length: 99999999999999999999999999\r\n\r\n", CL),
        V(POST "Content-Length:\r\n\r\n", CL),
        V(POST "Content-Length: \t\r\n\r\n", CL),
        V(POST "Content-Length: -5\r\n\r\n", CL),
        V(POST "Content-Length: +5\r\n\r\n", CL),
        V(POST "Content-Length: 5 5\r\n\r\n", CL),
        V(POST "Content-Length: 5, 5\r\n\r\n", CL),
        V(POST "Content-Length: 5,\r\n\r\n", CL),
        V(POST "Content-Length: 5_0\r\n\r\n", CL),
        V(POST "Content-Length: 0x5\r\n\r\n", CL),
        V(POST "Content-Length: 5.0\r\n\r\n", CL),
        V(POST "Content-Length: 5e1\r\n\r\n", CL),
        V(POST "Content-Length: \"5\"\r\n\r\n", CL),
        V(POST "Content-Length: five\r\n\r\n", CL),
        V(POST "Content-Length: 5;\r\n\r\n", CL),
        V(POST "Content-Length: \xef\xbc\x95\r\n\r\n", CL), /* a full-width digit */
        V(POST "Content-Length: \xb2\r\n\r\n", CL),         /* superscript two in Latin-1 */
        V(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", CL),
        V(POST "Content-Length: 5\r\ncontent-length: 6\r\n\r\n", CL),
        V(POST "Content-Length: 0\r\nX: y\r\nCONTENT-LENGTH: 0\r\n\r\n", CL),
        V(POST10 "Content-Length: 5\r\n\r\n", 0),
    };
    FEED_VECTORS(vectors);
    feed_result_t result;
    const uvhttp__head_t *head = feed_accepted(POST "cOnTeNt-lEnGtH: 0123\r\n\r\n", &result);
    assert_true(head->has_content_length && !head->chunked);
    assert_int_equal(head->content_length, 123);
    head = feed_accepted(POST "Content-Length: 9223372036854775807\r\n\r\n", &result);
    assert_true(head->content_length == INT64_MAX);
    head = feed_accepted(POST "Content-Lengths: 7\r\n\r\n", &result);
    assert_true(!head->has_content_length && head->content_length == 0);
}

static void test_transfer_encoding(void **state) {
    (void)state;
    static const feed_vector_t vectors[] = {
        V(POST "Transfer-Encoding: chunked\r\n\r\n", 0),
        V(POST "transfer-encoding:\tCHUNKED \r\n\r\n", 0),
        V(POST "Transfer-Encoding:\r\n\r\n", TE),
        V(POST "Transfer-Encoding: ,\r\n\r\n", TE),
        V(POST "Transfer-Encoding: chunked,\r\n\r\n", TE),
        V(POST "Transfer-Encoding: ,chunked\r\n\r\n", TE),
        V(POST "Transfer-Encoding: chunked, chunked\r\n\r\n", TE),
        V(POST "Transfer-Encoding: chunked, gzip\r\n\r\n", TE),
        V(POST "Transfer-Encoding: chunked, identity\r\n\r\n", TE),
        V(POST "Transfer-Encoding: identity, chunked\r\n\r\n", TE),
        V(POST "Transfer-Encoding: identity\r\n\r\n", TE),
        V(POST "Transfer-Encoding: chunked;a=b\r\n\r\n", TE),
        V(POST "Transfer-Encoding: gzip, chunked ; q=1\r\n\r\n", TE),
        V(POST "Transfer-Encoding: chunked chunked\r\n\r\n", TE),
        V(POST "Transfer-Encoding: chunk ed\r\n\r\n", TE),
        V(POST "Transfer-Encoding: \"chunked\"\r\n\r\n", TE),
        V(POST "Transfer-Encoding: 'chunked'\r\n\r\n", TE_UNKNOWN), /* a token, if an odd one */
        V(POST "Transfer-Encoding: gzip\r\n\r\n", TE_UNKNOWN),
        V(POST "Transfer-Encoding: gzip;level=1\r\n\r\n", TE_UNKNOWN),
        V(POST "Transfer-Encoding: gzip \t;level=1\r\n\r\n", TE_UNKNOWN),
        V(POST "Transfer-Encoding: identity ;a=b\r\n\r\n", TE),
        V(POST "Transfer-Encoding: ;a=b\r\n\r\n", TE),
        V(POST "Transfer-Encoding: gzip, chunked\r\n\r\n", TE_UNKNOWN),
        V(POST "Transfer-Encoding: gzip, deflate, chunked\r\n\r\n", TE_UNKNOWN),
        V(POST "Transfer-Encoding: gzip, deflate\r\n\r\n", TE),
        V(POST "Transfer-Encoding: xchunked\r\n\r\n", TE_UNKNOWN),
        V(POST "Transfer-Encoding: chunkedx\r\n\r\n", TE_UNKNOWN),
        V(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", TE),
        V(POST "Transfer-Encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n", TE),
        V(POST10 "Transfer-Encoding: chunked\r\n\r\n", TE),
        V(POST10 "Transfer-Encoding: gzip\r\n\r\n", TE),
    };
    FEED_VECTORS(vectors);
    feed_result_t result;
    const uvhttp__head_t *head = feed_accepted(POST "Transfer-Encoding: Chunked\r\n\r\n", &result);
    assert_true(head->chunked && !head->has_content_length);
    assert_false(feed_accepted(POST "Transfer-Encodings: chunked\r\n\r\n", &result)->chunked);
}

static void test_request_smuggling_vectors_are_refused(void **state) {
    (void)state;
    static const feed_vector_t vectors[] = {
        /* CL.TE and TE.CL, in both orders, and 0.CL */
        V(POST "Content-Length: 13\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nSMUGGLED", TE),
        V(POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n8\r\nSMUGGLED\r\n0\r\n\r\n", TE),
        V(POST "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n", TE),
        V(POST "Content-Length: 0\r\nContent-Length: 30\r\n\r\nGET /x HTTP/1.1\r\n", CL),
        V("GET / HTTP/1.1\r\nHost: a\r\nContent-Length\r\n : 45\r\n\r\n", NAME), /* 0.CL by obs-fold in the name */
        V("GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 45\r\n\r\n", UVHTTP_E_HTTP_OBS_FOLD),
        V("GET / HTTP/1.1\r\nHost: a\r\n Content-Length: 45\r\n\r\n", UVHTTP_E_HTTP_OBS_FOLD),
        /* TE.TE: one side must not understand what the other one does */
        V(POST "Transfer-Encoding : chunked\r\n\r\n", NAME),
        V(POST "Transfer-Encoding\t: chunked\r\n\r\n", NAME),
        V(POST "Transfer-Encoding\x0b: chunked\r\n\r\n", NAME),
        V(POST "Transfer-Encoding\0: chunked\r\n\r\n", NAME),
        V(POST " Transfer-Encoding: chunked\r\n\r\n", UVHTTP_E_HTTP_OBS_FOLD),
        V(POST "X: y\r\n\tTransfer-Encoding: chunked\r\n\r\n", UVHTTP_E_HTTP_OBS_FOLD),
        V(POST "Transfer-Encoding:\r\n chunked\r\n\r\n", UVHTTP_E_HTTP_OBS_FOLD),
        V(POST "Transfer-Encoding\r\n: chunked\r\n\r\n", NAME),
        V(POST "Transfer-Encoding: \x0b"
               "chunked\r\n\r\n",
          VALUE),
        V(POST "Transfer-Encoding: chunked\x0b\r\n\r\n", VALUE),
        V(POST "Transfer-Encoding: \x0c"
               "chunked\r\n\r\n",
          VALUE),
        V(POST "Transfer-Encoding: chunked\0\r\n\r\n", VALUE),
        V(POST "Transfer-Encoding: \x08"
               "chunked\r\n\r\n",
          VALUE),
        V(POST "Transfer-Encoding: \xa0"
               "chunked\r\n\r\n",
          TE), /* Latin-1 no-break space */
        V(POST "Transfer-Encoding: \x85"
               "chunked\r\n\r\n",
          TE), /* next line */
        V(POST "Transfer-Encoding: \xff"
               "chunked\r\n\r\n",
          TE),
        V(POST "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n", TE_UNKNOWN),
        V(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n", TE),
        V(POST "Transfer_Encoding: chunked\r\n\r\n", NAME),
        V(POST "TRANSFER_ENCODING: x\r\n\r\n", NAME),
        V(POST "Content_Length: 5\r\n\r\n", NAME),
        V(POST "content_LENGTH: 5\r\nTransfer-Encoding: chunked\r\n\r\n", NAME),
        V(POST "Content-Length : 5\r\n\r\n", NAME),
        V(POST "\"Content-Length\": 5\r\n\r\n", NAME),
        V(POST "Content-Length;: 5\r\n\r\n", NAME),
        V(POST "Content-Length: 5\0\r\n\r\n", VALUE),
        V(POST "Content-Length: 5\x0b\r\n\r\n", VALUE),
        V(POST "Content-Length: \x0b"
               "5\r\n\r\n",
          VALUE),
        V(POST "Content-Length: 5\xa0\r\n\r\n", CL),
        /* line ends that only one side takes for one */
        V(POST "X: y\nTransfer-Encoding: chunked\r\n\r\n", UVHTTP_E_HTTP_BARE_LF),
        V(POST "X: y\rTransfer-Encoding: chunked\r\n\r\n", UVHTTP_E_HTTP_BARE_CR),
        V(POST "X: y\r\rTransfer-Encoding: chunked\r\n\r\n", UVHTTP_E_HTTP_BARE_CR),
        V(POST "X: y\n\r\nGET /smuggled HTTP/1.1\r\n\r\n", UVHTTP_E_HTTP_BARE_LF),
        V(POST "X: y\r\n\nGET /smuggled HTTP/1.1\r\n\r\n", UVHTTP_E_HTTP_BARE_LF),
        V(POST "X: y\r\n\rGET /smuggled HTTP/1.1\r\n\r\n", UVHTTP_E_HTTP_BARE_CR),
        V(POST "X: y\0\r\n\r\n", VALUE),
        V("GET / HTTP/1.1\r\nHost: a\r\n\r\r\n\r\n", UVHTTP_E_HTTP_BARE_CR),
        /* the host that routes is not the one that is served */
        V("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", UVHTTP_E_HTTP_HOST),
        V("GET / HTTP/1.1\r\nHost : a\r\n\r\n", NAME),
        V("GET / HTTP/1.1\r\n Host: a\r\nHost: b\r\n\r\n", UVHTTP_E_HTTP_OBS_FOLD),
        V("GET http://b@c/ HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_TARGET),
        /* a request in the request line */
        V("GET / HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET /a HTTP/1.1\tx\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET /\x0bHTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_TARGET),
        V("GET /\xa0HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_TARGET),
        /* chunked to a side that does not know it */
        V("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", TE),
    };
    FEED_VECTORS(vectors);
}

static void test_fields_with_names_of_the_same_length_are_not_mistaken(void **state) {
    (void)state;
    feed_result_t result;
    const uvhttp__head_t *head = feed_accepted(
        POST "Hist: b b\r\nExpert: x\r\nUpgrada: x\r\nConnectiom: a b\r\nContent-Lengtg: x\r\nSec-Fetch-Site: x\r\n"
             "Context-Length: x\r\nTransfer-Encodinh: x\r\nTransfes-Encoding: x\r\nTransfer.Encoding: x\r\n"
             "Content.Length: x\r\nContent-_Length: 1\r\n\r\n",
        &result);
    assert_int_equal(head->header_count, 13);
    assert_true(!head->chunked && !head->has_content_length && !head->expect_continue && head->keep_alive);
}

int main(void) {
    return RUN_TESTS(test_content_length, test_transfer_encoding, test_request_smuggling_vectors_are_refused,
                     test_fields_with_names_of_the_same_length_are_not_mistaken);
}
