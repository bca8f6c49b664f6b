/* Owns: a text that grows, for the formats of metrics. May include: base. */
#ifndef UVHTTP_SRC_SERVER_METRICS_WRITER_H
#define UVHTTP_SRC_SERVER_METRICS_WRITER_H

#include <stdbool.h>
#include <string.h>
#include <uvhttp/types.h>

typedef struct uvhttp__writer {
    char *data; /* uvhttp__realloc; NULL: nothing yet */
    size_t size, capacity;
    bool failed; /* out of memory: nothing is written any more */
} uvhttp__writer_t;

void uvhttp__write_bytes(uvhttp__writer_t *writer, const char *data, size_t size);
static inline void uvhttp__write_text(uvhttp__writer_t *writer, const char *text) {
    uvhttp__write_bytes(writer, text, strlen(text));
}
void uvhttp__write_number(uvhttp__writer_t *writer, uint64_t number);
/* number / scale as a decimal fraction, exactly; scale: a power of ten. point: "1.0" in place of "1". */
void uvhttp__write_scaled(uvhttp__writer_t *writer, uint64_t number, uint64_t scale, bool point);
/* 16 hex digits. */
void uvhttp__write_hex(uvhttp__writer_t *writer, uint64_t number);
/* A JSON string with its quotation marks. */
void uvhttp__write_json_string(uvhttp__writer_t *writer, const char *text);
/* The value of a label of Prometheus with its quotation marks. */
void uvhttp__write_label_value(uvhttp__writer_t *writer, const char *text);

/* The text, terminated, for uvhttp__free; NULL if it has failed. The writer is at its end. */
char *uvhttp__writer_finish(uvhttp__writer_t *writer, size_t *size);

#endif
