/* Owns: reading the Range field. May include: base. */
#include "base/str.h"
#include "handler/static.h"

/* Decimal digits; what does not fit is as large as can be, which is beyond the end of every file. False: no digit. */
static bool take_number(uvhttp_str_t *rest, uint64_t *number) {
    size_t digits = 0;
    *number = 0;
    for (; digits < rest->size && rest->data[digits] >= '0' && rest->data[digits] <= '9'; digits++) {
        unsigned digit = (unsigned)(rest->data[digits] - '0');
        *number = *number > (UINT64_MAX - digit) / 10 ? UINT64_MAX : *number * 10 + digit;
    }
    *rest = (uvhttp_str_t){rest->data + digits, rest->size - digits};
    return digits > 0;
}

static bool take_dash(uvhttp_str_t *rest) {
    if (rest->size == 0 || rest->data[0] != '-') return false;
    *rest = (uvhttp_str_t){rest->data + 1, rest->size - 1};
    return true;
}

/* One range-spec, trimmed. Returns false if it is malformed; range->size is 0 if no byte of it is there. */
static bool read_spec(uvhttp_str_t spec, uint64_t size, uvhttp__range_t *range) {
    uint64_t first, last;
    *range = (uvhttp__range_t){0, 0};
    if (take_dash(&spec)) { /* the last so many bytes */
        if (!take_number(&spec, &last) || spec.size > 0) return false;
        range->size = last < size ? last : size;
        range->first = size - range->size;
        return true;
    }
    if (!take_number(&spec, &first) || !take_dash(&spec)) return false;
    if (spec.size == 0)
        last = UINT64_MAX;
    else if (!take_number(&spec, &last) || spec.size > 0 || last < first)
        return false;
    if (first >= size) return true;
    if (last >= size) last = size - 1;
    *range = (uvhttp__range_t){first, last - first + 1};
    return true;
}

static bool overlaps(const uvhttp__range_t *ranges, uint32_t count, const uvhttp__range_t *range) {
    for (uint32_t i = 0; i < count; i++)
        if (range->first < ranges[i].first + ranges[i].size && ranges[i].first < range->first + range->size)
            return true;
    return false;
}

uvhttp__range_outcome_t uvhttp__range_parse(uvhttp_str_t value, uint64_t size, uvhttp__range_t *ranges, uint32_t max,
                                            uint32_t *count) {
    static const uvhttp_str_t unit = UVHTTP__STR_INIT("bytes=");
    *count = 0;
    if (!uvhttp__str_starts_with_nocase(value, unit)) return UVHTTP__RANGE_NONE;
    uvhttp_str_t rest = {value.data + unit.size, value.size - unit.size};
    uint32_t specs = 0;
    bool absurd = false;
    while (rest.size > 0) {
        const char *comma = memchr(rest.data, ',', rest.size);
        size_t length = comma ? (size_t)(comma - rest.data) : rest.size, used = length + (comma != NULL);
        uvhttp_str_t spec = uvhttp__str_trim((uvhttp_str_t){rest.data, length});
        rest = (uvhttp_str_t){rest.data + used, rest.size - used};
        if (spec.size == 0) continue; /* an empty element of a list is allowed (RFC 9110 section 5.6.1.2) */
        uvhttp__range_t range;
        if (!read_spec(spec, size, &range)) return UVHTTP__RANGE_NONE;
        if (specs < max)
            specs++;
        else
            absurd = true;
        if (range.size == 0 || absurd) continue;
        if (overlaps(ranges, *count, &range)) absurd = true;
        if (!absurd) ranges[(*count)++] = range;
    }
    if (specs == 0) return UVHTTP__RANGE_NONE;
    if (absurd) return UVHTTP__RANGE_ABSURD;
    if (*count > 0) return UVHTTP__RANGE_SOME;
    return size == 0 ? UVHTTP__RANGE_NONE : UVHTTP__RANGE_UNSATISFIABLE;
}
