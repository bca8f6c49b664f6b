/* Owns: evaluation of Accept-Encoding (RFC 9110 section 12.5.3). May include: base. */
#ifndef UVHTTP_SRC_MESSAGE_ACCEPT_ENCODING_H
#define UVHTTP_SRC_MESSAGE_ACCEPT_ENCODING_H

#include <stdint.h>
#include <uvhttp/types.h>

/* Weights in thousandths, 0: not acceptable. Zero it; a field that is absent altogether accepts nothing. */
typedef struct uvhttp__accept_encoding {
    uint16_t gzip, brotli, any;
    uint16_t identity; /* of no coding at all, if it is named */
    bool gzip_named, brotli_named, any_named;
} uvhttp__accept_encoding_t;

/* Adds the codings of one field value. What is malformed is passed over, element by element. Of a coding that is named
 * twice the last weight counts. */
void uvhttp__accept_encoding_add(uvhttp__accept_encoding_t *accept, uvhttp_str_t value);

/* The weight among the parameters of an element, "q=0.5;level=1", in thousandths; 1000 without one, -1 if it is
 * malformed (RFC 9110 section 12.4.2). Of any field of this kind. */
int uvhttp__accept_weight(uvhttp_str_t parameters);

/* The weights with "*" filled in for codings without a name of their own. Also 0 if "identity" is preferred. */
uint16_t uvhttp__accept_gzip(const uvhttp__accept_encoding_t *accept);
uint16_t uvhttp__accept_brotli(const uvhttp__accept_encoding_t *accept);

#endif
