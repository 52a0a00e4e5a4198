/* Bytes that must be as they were: inputs, guard zones, poisoned outputs. */
#include "native.h"

#include <string.h>

/* The offset of the first byte that differs; -1 where none does. */
EXPORTED int64_t mluops_first_difference(const unsigned char *left, const unsigned char *right, int64_t size) {
    enum { BLOCK = 1 << 14 };
    for (int64_t start = 0; start < size; start += BLOCK) {
        int64_t length = size - start < BLOCK ? size - start : BLOCK;
        if (memcmp(left + start, right + start, (size_t)length) == 0) continue;
        /* Somebody may be writing: what differed a moment ago may be equal by now. */
        for (int64_t i = start; i < start + length; i++)
            if (left[i] != right[i]) return i;
    }
    return -1;
}

#define COUNT(type)                                                                      \
    do {                                                                                 \
        type wanted, value;                                                              \
        memcpy(&wanted, pattern, sizeof wanted);                                         \
        for (int64_t i = 0; i < count; i++) {                                            \
            memcpy(&value, cells + i * (int64_t)sizeof(type), sizeof value);             \
            found += value == wanted;                                                    \
        }                                                                                \
    } while (0)

/* How many cells of `size` bytes hold the pattern; -1 for a size that no type has. */
EXPORTED int64_t mluops_count_holding(const unsigned char *cells, int64_t count, const unsigned char *pattern, int size) {
    int64_t found = 0;
    switch (size) {
    case 1: COUNT(uint8_t); break;
    case 2: COUNT(uint16_t); break;
    case 4: COUNT(uint32_t); break;
    case 8: COUNT(uint64_t); break;
    case 16:
        for (int64_t i = 0; i < count; i++) found += memcmp(cells + 16 * i, pattern, 16) == 0;
        break;
    default: return -1;
    }
    return found;
}
