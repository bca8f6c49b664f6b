/* Owns: a distinguished name as text (RFC 4514). mbedTLS's own function neither reverses it nor escapes all of it. May
 * include: base. */
#include <mbedtls/oid.h>
#include <string.h>

#include "base/alloc.h"
#include "tls/mbedtls.h"

/* Counts first, writes in a second pass. */
typedef struct out {
    char *at; /* NULL: only count */
    size_t size;
} out_t;

static void put(out_t *out, char c) {
    if (out->at) out->at[out->size] = c;
    out->size++;
}

static void put_text(out_t *out, const char *text) {
    while (*text) put(out, *text++);
}

static void put_hex(out_t *out, unsigned byte) {
    static const char digits[] = "0123456789ABCDEF";
    put(out, digits[byte >> 4 & 15]);
    put(out, digits[byte & 15]);
}

/* "#" and the value as DER, as for what has no text (section 2.4). */
static void put_der(out_t *out, const mbedtls_x509_buf *value) {
    put(out, '#');
    put_hex(out, (unsigned)value->tag);
    if (value->len < 128) {
        put_hex(out, (unsigned)value->len);
    } else {
        put_hex(out, value->len < 256 ? 0x81 : 0x82);
        if (value->len >= 256) put_hex(out, (unsigned)(value->len >> 8));
        put_hex(out, (unsigned)value->len);
    }
    for (size_t i = 0; i < value->len; i++) put_hex(out, value->p[i]);
}

static void put_value(out_t *out, const mbedtls_x509_buf *value) {
    for (size_t i = 0; i < value->len; i++) {
        unsigned char c = value->p[i];
        bool edge = (c == ' ' && (i == 0 || i + 1 == value->len)) || (c == '#' && i == 0);
        if (c < ' ' || c == 0x7f) {
            put(out, '\\');
            put_hex(out, c);
            continue;
        }
        if (edge || strchr(",+\"\\<>;", c)) put(out, '\\');
        put(out, (char)c);
    }
}

static bool is_text(const mbedtls_x509_buf *value) {
    return value->tag == MBEDTLS_ASN1_UTF8_STRING || value->tag == MBEDTLS_ASN1_PRINTABLE_STRING ||
           value->tag == MBEDTLS_ASN1_IA5_STRING;
}

static void put_attribute(out_t *out, const mbedtls_x509_name *one) {
    const char *type;
    char number[128];
    bool known = mbedtls_oid_get_attr_short_name(&one->oid, &type) == 0;
    if (known) {
        put_text(out, type);
    } else if (mbedtls_oid_get_numeric_string(number, sizeof number, &one->oid) > 0) {
        put_text(out, number);
    } else {
        put_text(out, "unknown");
    }
    put(out, '=');
    if (known && is_text(&one->val))
        put_value(out, &one->val);
    else
        put_der(out, &one->val);
}

/* The last first (section 2.1), '+' between the attributes of one part. */
static void put_name(out_t *out, const mbedtls_x509_name *name) {
    for (const mbedtls_x509_name *end = NULL, *last; end != name; end = last) {
        last = name;
        while (last->next != end) last = last->next;
        if (end) put(out, last->next_merged ? '+' : ',');
        put_attribute(out, last);
    }
}

char *uvhttp__tls_name_text(const mbedtls_x509_name *name) {
    out_t out = {.at = NULL};
    if (name->oid.p) put_name(&out, name);
    char *text = uvhttp__malloc(out.size + 1);
    if (!text) return NULL;
    out = (out_t){.at = text};
    if (name->oid.p) put_name(&out, name);
    text[out.size] = '\0';
    return text;
}
