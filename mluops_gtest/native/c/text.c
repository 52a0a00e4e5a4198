/* Long runs of values in text: `value_f: 1.5 value_f: 2 ...` and lists `1.5, 2, ...`. Only ordinary spellings are taken;
 * at anything else the reader stops, and the caller goes on from there. */
#include "native.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers are short: a call for every part of one takes as long as the part. */
#define INLINED static inline __attribute__((always_inline))

/* The order is that of native/text.py. */
enum storage { FLOAT32, FLOAT64, SIGNED32, SIGNED64, UNSIGNED32, UNSIGNED64 };

typedef struct {
    const char *text;
    int64_t length;
    const char *name; /* of the field that stands before every value; NULL in a list */
    int64_t name_length;
} source;

static int is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static int is_digit(char c) { return c >= '0' && c <= '9'; }
static int is_word(char c) {
    return is_digit(c) || c == '_' || c == '.' || ((unsigned char)(c | 0x20) >= 'a' && (unsigned char)(c | 0x20) <= 'z');
}

INLINED int64_t behind_blanks(const source *s, int64_t pos) {
    while (pos < s->length && is_blank(s->text[pos])) pos++;
    return pos;
}

/* The position of the next value behind what separates it from the one that ends at `pos`; -1 if there is none. */
INLINED int64_t behind_separator(const source *s, int64_t pos) {
    if (s->name == NULL) {
        pos = behind_blanks(s, pos);
        return pos < s->length && s->text[pos] == ',' ? behind_blanks(s, pos + 1) : -1;
    }
    while (pos < s->length && (is_blank(s->text[pos]) || s->text[pos] == ',' || s->text[pos] == ';')) pos++;
    if (s->length - pos <= s->name_length) return -1;
    for (int64_t i = 0; i < s->name_length; i++)
        if (s->text[pos + i] != s->name[i]) return -1;
    pos = behind_blanks(s, pos + s->name_length);
    return pos < s->length && s->text[pos] == ':' ? behind_blanks(s, pos + 1) : -1;
}

/* Whether the letters at `pos` are this word in any case; `word` is in lower case. */
static int says(const source *s, int64_t pos, const char *word) {
    for (; *word; word++, pos++)
        if (pos >= s->length || (s->text[pos] | 0x20) != *word) return 0;
    return 1;
}

/* Powers of ten that double holds exactly. */
static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* The position behind the digits at `pos`, which are appended to *digits; eight at a time where they are in one word. */
INLINED int64_t behind_digits(const source *s, int64_t pos, uint64_t *digits) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    static const uint64_t POWERS[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    for (int count = 8; count == 8 && s->length - pos >= 8; pos += count) {
        uint64_t word;
        memcpy(&word, s->text + pos, 8);
        word ^= 0x3030303030303030;
        /* The lowest byte above 9 ends the digits; a carry can only reach bytes above it. */
        uint64_t others = (word | (word + 0x0606060606060606)) & 0xf0f0f0f0f0f0f0f0;
        count = others ? __builtin_ctzll(others) / 8 : 8;
        if (count == 0) return pos;
        word <<= 64 - 8 * count;
        word = (word * 10 + (word >> 8)) & 0x00ff00ff00ff00ff;
        word = (word * 100 + (word >> 16)) & 0x0000ffff0000ffff;
        word = (word * 10000 + (word >> 32)) & 0xffffffff;
        *digits = *digits * POWERS[count] + word;
        if (count < 8) return pos + count;
    }
#endif
    for (; pos < s->length && is_digit(s->text[pos]); pos++) *digits = *digits * 10 + (uint64_t)(s->text[pos] - '0');
    return pos;
}

/* The correctly rounded number at `pos`, and the position behind it; -1 if it is not spelled in an ordinary way. */
INLINED int64_t read_real(const source *s, int64_t pos, double *number) {
    const char *text = s->text;
    const int64_t start = pos;
    int negative = 0;
    if (pos < s->length && (text[pos] == '-' || text[pos] == '+')) negative = text[pos++] == '-';
    uint64_t digits = 0;
    int64_t first = pos, exponent = 0;
    pos = behind_digits(s, pos, &digits);
    int64_t whole = pos - first;
    if (pos < s->length && text[pos] == '.') {
        first = ++pos;
        pos = behind_digits(s, pos, &digits);
        exponent = first - pos;
        whole += pos - first;
    }
    if (whole == 0) {
        if (pos != first || (pos > start && text[pos - 1] == '.')) return -1;
        if (says(s, pos, "nan")) {
            *number = NAN;
            pos += 3;
        } else if (says(s, pos, "inf")) {
            *number = INFINITY;
            pos += says(s, pos, "infinity") ? 8 : 3;
        } else {
            return -1;
        }
    } else {
        if (pos < s->length && (text[pos] | 0x20) == 'e') {
            int64_t power = 0;
            pos++;
            int down = 0;
            if (pos < s->length && (text[pos] == '-' || text[pos] == '+')) down = text[pos++] == '-';
            if (pos >= s->length || !is_digit(text[pos])) return -1;
            for (; pos < s->length && is_digit(text[pos]); pos++)
                if (power < 100000) power = power * 10 + (text[pos] - '0');
            exponent += down ? -power : power;
        }
        /* With both factors exact in double one operation rounds once; 19 digits cannot have wrapped. */
        if (whole <= 19 && digits <= (uint64_t)1 << 53 && exponent >= -22 && exponent <= 22) {
            *number = exponent < 0 ? (double)digits / TENS[-exponent] : (double)digits * TENS[exponent];
        } else {
            if (strcmp(localeconv()->decimal_point, ".") != 0) return -1;
            /* Its end is known, and what stands there is no part of a number. */
            *number = fabs(strtod(text + start, NULL));
        }
    }
    if (negative) *number = -*number;
    if (pos < s->length && (text[pos] | 0x20) == 'f') pos++;
    return pos < s->length && !is_word(text[pos]) ? pos : -1;
}

/* Decimal without leading zeros, between `low` and `high`. */
INLINED int64_t read_integer(const source *s, int64_t pos, int64_t low, uint64_t high, uint64_t *number) {
    const char *text = s->text;
    int negative = 0;
    if (pos < s->length && (text[pos] == '-' || text[pos] == '+')) negative = text[pos++] == '-';
    const int64_t first = pos;
    uint64_t magnitude = 0;
    for (; pos < s->length && is_digit(text[pos]); pos++) {
        uint64_t digit = (uint64_t)(text[pos] - '0');
        if (magnitude > (UINT64_MAX - digit) / 10) return -1;
        magnitude = magnitude * 10 + digit;
    }
    if (pos == first || (pos - first > 1 && text[first] == '0')) return -1;
    if (negative ? magnitude > (uint64_t)0 - (uint64_t)low : magnitude > high) return -1;
    *number = negative ? (uint64_t)0 - magnitude : magnitude;
    return pos < s->length && !is_word(text[pos]) ? pos : -1;
}

static void store(enum storage storage, void *values, int64_t i, double real, uint64_t whole) {
    switch (storage) {
    case FLOAT32: ((float *)values)[i] = (float)real; break;
    case FLOAT64: ((double *)values)[i] = real; break;
    case SIGNED32:
    case UNSIGNED32: ((uint32_t *)values)[i] = (uint32_t)whole; break;
    case SIGNED64:
    case UNSIGNED64: ((uint64_t *)values)[i] = whole; break;
    }
}

/* Read up to `most` values from *pos on, each with another one behind it, and move *pos to that; how many. */
EXPORTED int64_t mluops_read_numbers(const source *given, int64_t *pos, int storage, int64_t low, uint64_t high,
                                     void *values, int64_t most) {
    const source s = *given; /* in registers: no store into values can change it */
    int64_t count = 0, at = *pos;
    for (; count < most; count++) {
        double real = 0;
        uint64_t whole = 0;
        int64_t end = storage <= FLOAT64 ? read_real(&s, at, &real) : read_integer(&s, at, low, high, &whole);
        int64_t next = end < 0 ? -1 : behind_separator(&s, end);
        if (next < 0) break;
        store((enum storage)storage, values, count, real, whole);
        at = next;
    }
    *pos = at;
    return count;
}

/* The same for quoted strings of exactly `digits` hexadecimal digits, of which the characters are kept. */
EXPORTED int64_t mluops_read_hex(const source *given, int64_t *pos, int64_t digits, char *characters, int64_t most) {
    const source s = *given;
    int64_t count = 0, at = *pos;
    for (; count < most; count++) {
        const char *text = s.text + at;
        if (s.length - at < digits + 2 || (text[0] != '"' && text[0] != '\'') || text[digits + 1] != text[0]) break;
        int wrong = 0;
        for (int64_t i = 1; i <= digits; i++) {
            unsigned char c = (unsigned char)text[i], letter = (unsigned char)((c | 0x20) - 'a');
            wrong |= (unsigned char)(c - '0') > 9 && letter > 5;
        }
        int64_t next = wrong ? -1 : behind_separator(&s, at + digits + 2);
        if (next < 0) break;
        memcpy(characters + count * digits, text + 1, (size_t)digits);
        at = next;
    }
    *pos = at;
    return count;
}
