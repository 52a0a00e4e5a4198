/* Long runs of values in text: `value_f: 1.5 value_f: 2 ...` and lists `1.5, 2, ...`. Only ordinary spellings are taken;
 * at anything else the reader stops, and the caller goes on from there. */
#include "native.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Numbers are short: a call for every part of one takes as long as the part. */
#define INLINED static inline __attribute__((always_inline))

/* The order is that of native/text.py. */
enum storage { FLOAT32, FLOAT64, SIGNED32, SIGNED64, UNSIGNED32, UNSIGNED64 };

typedef struct {
    const char *text; /* a NUL stands behind it */
    int64_t length;
    const char *name; /* of the field that stands before every value; NULL in a list */
    int64_t name_length;
} source;

static int is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static int is_digit(char c) { return c >= '0' && c <= '9'; }
static int is_word(char c) {
    return is_digit(c) || c == '_' || c == '.' || ((unsigned char)(c | 0x20) >= 'a' && (unsigned char)(c | 0x20) <= 'z');
}

static int64_t behind_blanks(const char *text, int64_t pos) {
    while (is_blank(text[pos])) pos++;
    return pos;
}

/* The position of the next value behind what separates it from the one that ends at `pos`; -1 if there is none. */
static int64_t behind_separator(const source *s, int64_t pos) {
    const char *text = s->text;
    if (s->name == NULL) {
        pos = behind_blanks(text, pos);
        return text[pos] == ',' ? behind_blanks(text, pos + 1) : -1;
    }
    while (is_blank(text[pos]) || text[pos] == ',' || text[pos] == ';') pos++;
    if (s->length - pos <= s->name_length || memcmp(text + pos, s->name, (size_t)s->name_length) != 0) return -1;
    pos = behind_blanks(text, pos + s->name_length);
    return text[pos] == ':' ? behind_blanks(text, pos + 1) : -1;
}

/* Whether the letters at `text` are this word in any case; `word` is in lower case. */
static int says(const char *text, const char *word) {
    for (; *word; word++, text++)
        if ((*text | 0x20) != *word) return 0;
    return 1;
}

/* Powers of ten that double holds exactly, and the same below zero. */
#define POWERS(sign)                                                                                                \
    {sign 1e0,  sign 1e1,  sign 1e2,  sign 1e3,  sign 1e4,  sign 1e5,  sign 1e6,  sign 1e7,                         \
     sign 1e8,  sign 1e9,  sign 1e10, sign 1e11, sign 1e12, sign 1e13, sign 1e14, sign 1e15,                        \
     sign 1e16, sign 1e17, sign 1e18, sign 1e19, sign 1e20, sign 1e21, sign 1e22}
enum { MOST_TENS = 22 };
static const double TENS[2][MOST_TENS + 1] = {POWERS(+), POWERS(-)};

/* The position behind the digits at `pos`, which are appended to *digits. */
static int64_t behind_digits(const char *text, int64_t pos, uint64_t *digits) {
    for (; is_digit(text[pos]); pos++) *digits = *digits * 10 + (uint64_t)(text[pos] - '0');
    return pos;
}

/* The correctly rounded number at `pos`, and the position behind it; -1 if it is not spelled in an ordinary way. */
static int64_t read_real(const char *text, int64_t pos, double *number) {
    const int64_t start = pos;
    const int negative = text[pos] == '-';
    pos += negative || text[pos] == '+';
    uint64_t digits = 0;
    int64_t first = pos, exponent = 0;
    pos = behind_digits(text, pos, &digits);
    int64_t count = pos - first;
    if (text[pos] == '.') {
        first = ++pos;
        pos = behind_digits(text, pos, &digits);
        exponent = first - pos;
        count += pos - first;
    }
    if (count == 0) {
        if (pos > start && text[pos - 1] == '.') return -1;
        if (says(text + pos, "nan")) {
            *number = NAN;
            pos += 3;
        } else if (says(text + pos, "inf")) {
            *number = INFINITY;
            pos += says(text + pos, "infinity") ? 8 : 3;
        } else {
            return -1;
        }
    } else {
        if ((text[pos] | 0x20) == 'e') {
            int64_t power = 0;
            pos++;
            const int down = text[pos] == '-';
            pos += down || text[pos] == '+';
            if (!is_digit(text[pos])) return -1;
            for (; is_digit(text[pos]); pos++)
                if (power < 100000) power = power * 10 + (text[pos] - '0');
            exponent += down ? -power : power;
        }
        /* With both factors exact in double one operation rounds once; 19 digits cannot have wrapped. */
        if (count <= 19 && digits <= (uint64_t)1 << 53 && exponent >= -MOST_TENS && exponent <= MOST_TENS) {
            *number = exponent < 0 ? (double)digits / TENS[0][-exponent] : (double)digits * TENS[0][exponent];
        } else {
            if (strcmp(localeconv()->decimal_point, ".") != 0) return -1;
            /* Its end is known, and what stands there is no part of a number. */
            *number = fabs(strtod(text + start, NULL));
        }
    }
    if (negative) *number = -*number;
    pos += (text[pos] | 0x20) == 'f';
    return is_word(text[pos]) ? -1 : pos;
}

/* Decimal without leading zeros, between `low` and `high`. */
static int64_t read_integer(const char *text, int64_t pos, int64_t low, uint64_t high, uint64_t *number) {
    const int negative = text[pos] == '-';
    pos += negative || text[pos] == '+';
    const int64_t first = pos;
    uint64_t magnitude = 0;
    pos = behind_digits(text, pos, &magnitude);
    const int64_t count = pos - first;
    if (count == 0 || (count > 1 && text[first] == '0')) return -1;
    /* Of 20 digits those that fit start with 1; what has wrapped has lost its first one. */
    if (count > 19 && (count > 20 || text[first] != '1' || magnitude < 10000000000000000000u)) return -1;
    if (magnitude > (negative ? (uint64_t)0 - (uint64_t)low : high)) return -1;
    *number = negative ? (uint64_t)0 - magnitude : magnitude;
    return is_word(text[pos]) ? -1 : pos;
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

/* Short numbers are read by words, without a branch on a sign or on a number of digits: these are what no processor
 * foresees. Where something is not as short or as plain as it could be, the functions above read it. */
static const int BY_WORDS = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
#define EACH(byte) (0x0101010101010101 * (uint64_t)(byte))

/* Sixteen characters in two words, the first in the lowest byte. */
typedef uint64_t characters __attribute__((vector_size(16)));

INLINED characters characters_at(const void *text) {
    characters c;
    memcpy(&c, text, 16);
    return c;
}

/* What stands between two values, which is mostly the same all the time. */
typedef struct {
    characters known, counts; /* bits are set in `counts` where there are `length` characters */
    int64_t length;           /* 0 as long as none is known */
} separator;

/* Whether it stands there, with a value behind it; 17 characters can be read. */
INLINED int is_separator(const separator *s, const char *text) {
    const characters other = (characters_at(text) ^ s->known) & s->counts;
    return (other[0] | other[1]) == 0 && text[s->length] > ' ';
}

/* As behind_separator; the separator becomes `last`. */
INLINED int64_t next_value(const source *s, separator *last, int64_t pos) {
    if (last->length && s->length - pos > 16 && is_separator(last, s->text + pos)) return pos + last->length;
    const int64_t next = behind_separator(s, pos), length = next - pos;
    if (length > 0 && length <= 16) {
        *last = (separator){.length = length};
        memcpy(&last->known, s->text + pos, (size_t)length);
        memset(&last->counts, 0xff, (size_t)length);
    }
    return next;
}

/* Marks the bytes below that character in their highest bit, rightly up to the first of them. */
INLINED characters below(characters c, char limit) { return (c - EACH(limit)) & ~c & EACH(0x80); }

/* Which of 16 characters is the first below that one, or beyond ASCII; 16 if none is. */
INLINED int64_t first_below(characters c, char limit) {
#if defined(__SSE2__)
    const int bits = _mm_movemask_epi8(_mm_cmplt_epi8((__m128i)c, _mm_set1_epi8(limit)));
#else
    /* The highest byte of the product has all marks of a word. */
    const characters marks = below(c, limit) * 0x0002040810204081 >> 56;
    const int bits = (int)(marks[0] | marks[1] << 8);
#endif
    return __builtin_ctz((unsigned)bits | 1 << 16);
}

/* Bits that are set for the last `count` of 16 characters. */
INLINED characters last_of(int64_t count) {
    static const uint64_t WORDS[4] = {0, 0, UINT64_MAX, UINT64_MAX};
    return characters_at((const char *)WORDS + count);
}

/* The number of eight bytes 0 to 9, the first in the lowest one. */
INLINED uint64_t eight_digits(uint64_t word) {
    const uint64_t pairs = word * 10 + (word >> 8), every_other = 0x000000ff000000ff;
    return ((pairs & every_other) * 0x000f424000000064 + (pairs >> 16 & every_other) * 0x0000271000000001) >> 32;
}

/* The number of the last `count` of these; 0 is returned if they are no digits. */
INLINED int read_digits(characters c, int64_t count, uint64_t *number) {
    const characters digits = (c ^ EACH('0')) & last_of(count), others = (digits | (digits + EACH(6))) & EACH(0xf0);
    *number = eight_digits(digits[0]) * 100000000 + eight_digits(digits[1]);
    return (others[0] | others[1]) == 0;
}

/* The number of `length` characters, at most 15; 0 is returned if it is not plain. 32 before them can be read, too. */
INLINED int read_short_real(const char *text, int64_t length, double *number) {
    const int64_t negative = text[0] == '-';
    int64_t power = 0;
    if (text[length - 4] == 'e' && text[length - 3] == '-') {
        if (!is_digit(text[length - 2]) || !is_digit(text[length - 1])) return 0;
        power = 10 * (text[length - 2] - '0') + text[length - 1] - '0';
        length -= 4;
    }
    int64_t count = length - negative;
    const uint64_t others = below(characters_at(text + negative), '0')[0];
    if (others == 0) return 0;
    int64_t whole = __builtin_ctzll(others) / 8;
    whole = whole < count ? whole : count;
    if (whole <= 0) return 0;
    const int64_t point = text[negative + whole] == '.', behind_point = (count -= point) - whole;
    /* What stands before the point moves up to what stands behind it. */
    const characters c = characters_at(text + length - 16), moved = characters_at(text + length - 16 - point);
    const characters stays = last_of(behind_point), all = (c & stays) | (moved & ~stays);
    uint64_t digits;
    if (behind_point + power > MOST_TENS || !read_digits(all, count, &digits)) return 0;
    *number = (double)(int64_t)digits / TENS[negative][behind_point + power];
    return 1;
}

/* The same for integers. */
INLINED int read_short_integer(const char *text, int64_t length, int64_t low, uint64_t high, uint64_t *number) {
    const int64_t negative = text[0] == '-', count = length - negative;
    uint64_t digits;
    if (count <= 0 || !read_digits(characters_at(text + length - 16), count, &digits)) return 0;
    if ((count > 1 && text[negative] == '0') || digits > (negative ? (uint64_t)0 - (uint64_t)low : high)) return 0;
    *number = (digits ^ (uint64_t)-negative) + (uint64_t)negative;
    return 1;
}

/* Go on behind `count` values up to `most`, as long as they are short and what is behind them is `last`. */
INLINED int64_t read_short(const source *s, const separator *last, int64_t *pos, enum storage storage, int64_t low,
                           uint64_t high, void *values, int64_t count, int64_t most) {
    int64_t at = *pos;
    for (; count < most && s->length - at > 32; count++) {
        const char *text = s->text + at;
        double real = 0;
        uint64_t whole = 0;
        /* Blanks and commas are below signs, points and digits: the next number is found before this one is read. */
        const int64_t length = first_below(characters_at(text), '-');
        if (length == 16 || !is_separator(last, text + length)) break;
        if (!(storage <= FLOAT64 ? read_short_real(text, length, &real)
                                 : read_short_integer(text, length, low, high, &whole)))
            break;
        store(storage, values, count, real, whole);
        at += length + last->length;
    }
    *pos = at;
    return count;
}

/* Read up to `most` values from *pos on, each with another one behind it, and move *pos to that; how many. */
EXPORTED int64_t mluops_read_numbers(const source *given, int64_t *pos, int storage, int64_t low, uint64_t high,
                                     void *values, int64_t most) {
    const source s = *given; /* in registers: no store into values can change it */
    separator last = {.length = 0};
    int64_t count = 0, at = *pos;
    while (count < most) {
        if (BY_WORDS && last.length && at >= 32)
            count = read_short(&s, &last, &at, (enum storage)storage, low, high, values, count, most);
        if (count == most) break;
        double real = 0;
        uint64_t whole = 0;
        int64_t end = storage <= FLOAT64 ? read_real(s.text, at, &real) : read_integer(s.text, at, low, high, &whole);
        int64_t next = end < 0 ? -1 : next_value(&s, &last, end);
        if (next < 0) break;
        store((enum storage)storage, values, count++, real, whole);
        at = next;
    }
    *pos = at;
    return count;
}

/* The same for quoted strings of exactly `digits` hexadecimal digits, of which the characters are kept. */
EXPORTED int64_t mluops_read_hex(const source *given, int64_t *pos, int64_t digits, char *characters, int64_t most) {
    const source s = *given;
    separator last = {.length = 0};
    int64_t count = 0, at = *pos;
    for (; count < most; count++) {
        const char *text = s.text + at;
        if (s.length - at < digits + 2 || (text[0] != '"' && text[0] != '\'') || text[digits + 1] != text[0]) break;
        int wrong = 0;
        for (int64_t i = 1; i <= digits; i++) {
            unsigned char c = (unsigned char)text[i], letter = (unsigned char)((c | 0x20) - 'a');
            wrong |= (unsigned char)(c - '0') > 9 && letter > 5;
        }
        int64_t next = wrong ? -1 : next_value(&s, &last, at + digits + 2);
        if (next < 0) break;
        memcpy(characters + count * digits, text + 1, (size_t)digits);
        at = next;
    }
    *pos = at;
    return count;
}
