/* Values as lines of text, spelled as numpy spells them: floats with the fewest digits that give them back. */
#include "native.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef unsigned __int128 wide;

/* The order is that of native/text.py. */
enum storage { FLOAT32, FLOAT64, SIGNED32, SIGNED64, UNSIGNED32, UNSIGNED64 };

/* The powers of ten that 64 bits hold. */
static const uint64_t TENS[] = {1,
                                10,
                                100,
                                1000,
                                10000,
                                100000,
                                1000000,
                                10000000,
                                100000000,
                                1000000000,
                                10000000000,
                                100000000000,
                                1000000000000,
                                10000000000000,
                                100000000000000,
                                1000000000000000,
                                10000000000000000,
                                100000000000000000,
                                1000000000000000000,
                                10000000000000000000u};

static wide ten_to(int power) { return power < 20 ? TENS[power] : (wide)TENS[19] * TENS[power - 19]; }

static char *put_digits(char *out, uint64_t number) {
    char digits[20];
    int count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count) *out++ = digits[--count];
    return out;
}

static char *put_zeros(char *out, int count) {
    for (int i = 0; i < count; i++) *out++ = '0';
    return out;
}

/* digits * 10^power, with a point or with an exponent. */
static char *put_decimal(char *out, uint64_t digits, int power, int with_exponent) {
    char text[20];
    const int count = (int)(put_digits(text, digits) - text), first = power + count - 1; /* the first digit's power */
    if (with_exponent) {
        *out++ = text[0];
        if (count > 1) *out++ = '.';
        memcpy(out, text + 1, (size_t)(count - 1));
        out += count - 1;
        *out++ = 'e';
        *out++ = first < 0 ? '-' : '+';
        const int size = first < 0 ? -first : first;
        if (size < 10) *out++ = '0';
        return put_digits(out, (uint64_t)size);
    }
    if (first < 0) {
        out = put_zeros(out, 1);
        *out++ = '.';
        out = put_zeros(out, -first - 1);
        memcpy(out, text, (size_t)count);
        return out + count;
    }
    const int whole = first + 1 < count ? first + 1 : count;
    memcpy(out, text, (size_t)whole);
    out = put_zeros(out + whole, first + 1 - whole);
    *out++ = '.';
    if (whole == count) return put_zeros(out, 1);
    memcpy(out, text + whole, (size_t)(count - whole));
    return out + count - whole;
}

/* The shortest decimal that is nearer to this float than to any other, and of those the nearest to it; NULL where 128
 * bits do not hold what that takes. */
static char *put_float(char *out, float number) {
    uint32_t bits;
    memcpy(&bits, &number, 4);
    if (number != number) return (char *)memcpy(out, "nan", 3) + 3;
    if (bits >> 31) *out++ = '-';
    const double size = fabs((double)number);
    if (size == 0) return (char *)memcpy(out, "0.0", 3) + 3;
    if (size == INFINITY) return (char *)memcpy(out, "inf", 3) + 3;
    if (size < 1e-21) return NULL;
    /* The number is m * 2^e; half of the way to its neighbours is 2, below a power of two 1. */
    const uint32_t m = ((bits & 0x7fffff) | 0x800000) * 4, below = bits & 0x7fffff ? 2 : 1;
    const int e = (int)(bits >> 23 & 0xff) - 152, even = !(bits & 1);
    /* Nine digits tell a float from all others: they are q = number * 10^k, between 10^8 and 10^9. */
    int k = 8 - ((e + 25) * 1233 >> 12);
    wide unit, scale;
    uint64_t q;
    for (;; k--) {
        scale = (k > 0 ? ten_to(k) : 1) << (e > 0 ? e : 0);
        unit = (k < 0 ? ten_to(-k) : 1) << (e < 0 ? -e : 0);
        q = (uint64_t)(e < 0 ? m * scale >> -e : m * scale / unit);
        if (q < TENS[9]) break;
    }
    /* Decimals from `low` to `high` are read as this float: those in the middle are where it is even. */
    const wide from = (m - below) * scale, until = (m + 2) * scale;
    uint64_t low = (uint64_t)(e < 0 ? from >> -e : from / unit), high = (uint64_t)(e < 0 ? until >> -e : until / unit);
    if (low * unit < from || !even) low++;
    if (high * unit == until && !even) high--;
    int dropped = 0;
    while (dropped < 8 && high / TENS[dropped + 1] * TENS[dropped + 1] >= low) dropped++;
    const uint64_t step = TENS[dropped];
    uint64_t digits = q / step;
    const wide rest = m * scale - digits * step * unit, other = step * unit - rest;
    if (digits * step < low)
        digits++;
    else if ((digits + 1) * step <= high && (rest > other || (rest == other && digits % 2)))
        digits++;
    for (; digits % 10 == 0; dropped++) digits /= 10;
    return put_decimal(out, digits, dropped - k, size < 1e-4 || size >= 1e16);
}

static char *put_number(char *out, enum storage storage, const void *values, int64_t i) {
    int64_t number;
    switch (storage) {
    case FLOAT32: return put_float(out, ((const float *)values)[i]);
    case FLOAT64: return NULL;
    case UNSIGNED32: return put_digits(out, ((const uint32_t *)values)[i]);
    case UNSIGNED64: return put_digits(out, ((const uint64_t *)values)[i]);
    case SIGNED32: number = ((const int32_t *)values)[i]; break;
    default: number = ((const int64_t *)values)[i];
    }
    if (number >= 0) return put_digits(out, (uint64_t)number);
    *out++ = '-';
    return put_digits(out, (uint64_t)0 - (uint64_t)number);
}

/* A line for each value, with the label before it, until one that is not spelled here; how many, and how many bytes.
 * There must be room for 32 characters beside each label. */
EXPORTED int64_t mluops_write_numbers(int storage, const void *values, int64_t count, const char *label,
                                      int64_t label_length, char *out, int64_t *written) {
    const char *start = out;
    int64_t i = 0;
    for (; i < count; i++) {
        memcpy(out, label, (size_t)label_length);
        char *end = put_number(out + label_length, (enum storage)storage, values, i);
        if (end == NULL) break;
        *end = '\n';
        out = end + 1;
    }
    *written = out - start;
    return i;
}
