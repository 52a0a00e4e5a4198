/* Comparison of one floating-point type, LANES parts at a time. The file that includes it defines NAME, STORED (what is
 * in memory), VALUE (what is computed with before it is widened to double), PATTERN and UNSIGNED (the bits of a part),
 * MAGNITUDE and LARGEST_FINITE (masks of PATTERN), LOADED (several VALUEs as doubles); WIDEN where STORED is no number in C; MAY_OVERFLOW where a difference
 * of two finite numbers may leave double. */
#define FN(name) JOIN(name, NAME)

/* Rows that are looked at together: each lane's sums stay in a register while their parts are added, and the band that
 * follows is fetched; both bands and all sums fit in the smallest cache. */
enum { FN(BAND) = sizeof(STORED) == 8 ? 2 : 4, FN(BAND_PARTS) = FN(BAND) * LANES };

/* One row of one side: where its bits and its numbers are, and room for those that must be made. */
typedef struct {
    const PATTERN *bits;
    const VALUE *values;
    _Alignas(64) PATTERN own_bits[LANES];
    _Alignas(64) VALUE own_values[LANES];
} FN(row);

static void FN(take_values)(FN(row) *row) {
#if defined(WIDEN)
    WIDEN((const uint16_t *)row->bits, row->own_values, LANES);
    row->values = row->own_values;
#else
    row->values = (const VALUE *)row->bits;
#endif
}

/* The bits of the row at `from`; parts beyond `count` are zeros, which change no figure. */
static void FN(take)(FN(row) *row, const unsigned char *from, int64_t count) {
    if (count >= LANES && (uintptr_t)from % sizeof(STORED) == 0) {
        row->bits = (const PATTERN *)from;
        return;
    }
    if (count < LANES) memset(row->own_bits, 0, sizeof row->own_bits);
    memcpy(row->own_bits, from, (size_t)(count < LANES ? count : LANES) * sizeof(STORED));
    row->bits = row->own_bits;
}

/* Zeros on both sides where one is no finite number. */
static void FN(keep_finite)(FN(row) *e, FN(row) *b) {
    for (int i = 0; i < LANES; i++) {
        PATTERN p = e->bits[i], q = b->bits[i];
        PATTERN kept = (PATTERN)-(((p & MAGNITUDE) <= LARGEST_FINITE) & ((q & MAGNITUDE) <= LARGEST_FINITE));
        e->own_bits[i] = p & kept;
        b->own_bits[i] = q & kept;
    }
    e->bits = e->own_bits;
    b->bits = b->own_bits;
    FN(take_values)(e);
    FN(take_values)(b);
}

/* Finite numbers: -0 and +0 differ in bits alone. */
static int FN(differ)(PATTERN p, PATTERN q) { return p != q && ((p | q) & MAGNITUDE) != 0; }

/* How the bits of finite numbers differ: parts that do, those that are other numbers, the most steps between two. */
typedef struct {
    UNSIGNED bits, unequal, ulp;
} FN(distances);

static inline FN(distances) FN(distances_of)(const PATTERN *e, const PATTERN *b, int count) {
    UNSIGNED signs = 0, bits = 0, unequal = 0, most = 0;
    for (int i = 0; i < count; i++) {
        /* Patterns of one sign are ordered like magnitudes, and their difference cannot overflow. */
        UNSIGNED steps = (UNSIGNED)((UNSIGNED)(e[i] > b[i] ? e[i] : b[i]) - (UNSIGNED)(e[i] > b[i] ? b[i] : e[i]));
        signs |= (UNSIGNED)(e[i] ^ b[i]);
        unequal += steps != 0;
        most = steps > most ? steps : most;
    }
    if (!(signs & ~(UNSIGNED)MAGNITUDE)) return (FN(distances)){unequal, unequal, most};
    unequal = most = 0;
    for (int i = 0; i < count; i++) {
        /* Steps up from zero; -0 and +0 are one number. */
        PATTERN p = e[i] < 0 ? (PATTERN)-(e[i] & MAGNITUDE) : e[i];
        PATTERN q = b[i] < 0 ? (PATTERN)-(b[i] & MAGNITUDE) : b[i];
        UNSIGNED steps = (UNSIGNED)((UNSIGNED)(p > q ? p : q) - (UNSIGNED)(p > q ? q : p));
        bits += e[i] != b[i];
        unequal += steps != 0;
        most = steps > most ? steps : most;
    }
    return (FN(distances)){bits, unequal, most};
}

static void FN(add_weights)(const VALUE *b, lanes *sums) {
    for (int i = 0; i < LANES; i++) {
        double m = fabs((double)b[i]);
        m = m <= 0x1.fffffffffffffp1023 ? m : 0.0;
        sums->weight[i] += m;
        sums->weight_squared[i] += m * m;
    }
}

/* The row has an error above one that is known: which, and where. */
static void FN(new_maxima)(const VALUE *e, const VALUE *b, double small, int64_t at, figures *f) {
    _Alignas(64) double differences[LANES], quotients[LANES], errors[LANES], most[LANES];
    for (int i = 0; i < LANES; i++) {
        double m = fabs((double)b[i]), d = fabs((double)e[i] - (double)b[i]), q = d / (m + EPSILON);
        differences[i] = d;
        quotients[i] = m >= small ? q : 0.0;
        most[i] = errors[i] = m >= small ? q : d;
    }
    double difference = highest(differences), quotient = highest(quotients), error = highest(most);
    f->largest = difference > f->largest ? difference : f->largest;
    f->relative = quotient > f->relative ? quotient : f->relative;
    if (error > f->error) {
        f->error = error;
        f->worst = at;
        for (int i = 0; i < LANES - 1 && errors[i] != error; i++) f->worst++;
    }
}

/* The maxima with a row of finite numbers; divides only where a product says that one may be larger. */
static void FN(raise_maxima)(const VALUE *e, const VALUE *b, double small, int64_t at, figures *f) {
    const double largest = f->largest, error = f->error, relative = cautious(f->relative);
    int64_t above = 0;
    for (int i = 0; i < LANES; i++) {
        double m = fabs((double)b[i]), d = fabs((double)e[i] - (double)b[i]);
        double limit = m >= small ? relative * (m + EPSILON) : error;
        limit = limit < largest ? limit : largest;
#if defined(MAY_OVERFLOW)
        limit = limit < 0x1.fffffffffffffp1023 ? limit : 0x1.fffffffffffffp1023;
#endif
        above |= d > limit ? -1 : 0;
    }
    if (above) FN(new_maxima)(e, b, small, at, f);
}

enum { FN(FINITE) = 1, FN(ABOVE) = 2, FN(OUTSIDE) = 4 };

/* Whether products tell that elements are within what arithmetic allows: those from element `k` of a band on. */
static inline masks FN(are_within)(doubles e, doubles b, int k, const held *h) {
    const doubles m = loaded(h->magnitude + k), none = {0};
    doubles least = m * loaded(h->share + (k & h->each)) + powers(b) * h->half;
#if defined(WIDEN)
    least += powers(e) * h->half_of_evaluated;
#endif
    least *= h->known;
    masks told = m > loaded(h->exact + (k & h->each));
#if defined(MAY_OVERFLOW)
    told &= least >= 1e-280; /* a subnormal product may be off by much */
#endif
    return magnitudes(e - b) <= pick(told, least, none);
}

/* Add rows to the sums that count, giving the others. Whether the sums of the differences are finite, whether an error
 * may be above one that is known (where |b| is small it errs on the side of yes), and whether an element may be outside
 * of what `h`, if given, holds it to. `next` is needed soon. */
static inline __attribute__((always_inline)) int FN(add_rows)(const VALUE *restrict e, const VALUE *restrict b,
                                                              int rows, walk *w, const figures *f, const held *h,
                                                              const PATTERN *next_e, const PATTERN *next_b) {
    const lanes *restrict from = &w->sums[w->now];
    lanes *restrict to = &w->sums[!w->now];
    const double relative = cautious(f->relative);
    const doubles largest = spread_over(f->largest);
    masks above = {0}, finite = ~(masks){0}, within = ~(masks){0};
    for (int i = 0; i < LANES; i += WIDTH) {
        fetch(next_e, rows * i, rows * WIDTH, sizeof(PATTERN));
        fetch(next_b, rows * i, rows * WIDTH, sizeof(PATTERN));
        if (h) fetch(h->soon, rows * i, rows * WIDTH, h->size);
        doubles difference = loaded(from->difference + i), difference_squared = loaded(from->difference_squared + i);
        doubles weight = loaded(from->weight + i), weight_squared = loaded(from->weight_squared + i);
        for (int k = i; k < rows * LANES; k += LANES) {
            doubles x = LOADED(e + k), y = LOADED(b + k), d = magnitudes(x - y), m = magnitudes(y);
            difference += d;
            difference_squared += d * d;
            weight += m;
            weight_squared += m * m;
            above |= d > lower(m * relative, largest);
            if (h) within &= FN(are_within)(x, y, k, h);
        }
        memcpy(to->difference + i, &difference, sizeof(doubles));
        memcpy(to->difference_squared + i, &difference_squared, sizeof(doubles));
        memcpy(to->weight + i, &weight, sizeof(doubles));
        memcpy(to->weight_squared + i, &weight_squared, sizeof(doubles));
        finite &= difference <= 0x1.fffffffffffffp1023;
    }
    return (any(~finite) ? 0 : FN(FINITE)) | (any(above) ? FN(ABOVE) : 0) | (any(~within) ? FN(OUTSIDE) : 0);
}

/* The same where there are limits. Apart, so that what needs none keeps its registers. */
static __attribute__((noinline)) int FN(add_held_rows)(const VALUE *restrict e, const VALUE *restrict b, walk *w,
                                                       const figures *f, const held *h, const PATTERN *next_e,
                                                       const PATTERN *next_b) {
    return FN(add_rows)(e, b, FN(BAND), w, f, h, next_e, next_b);
}

/* Places and numbers of what is unequal, where single parts are not elements or some part is no finite number. */
static void FN(note_all)(const FN(row) *e, const FN(row) *b, int64_t at, int64_t parts, figures *f) {
    uint8_t bits[LANES], unequal[LANES], mismatched[LANES];
    int64_t unused = 0;
    for (int i = 0; i < LANES; i++) {
        PATTERN p = e->bits[i] & MAGNITUDE, q = b->bits[i] & MAGNITUDE;
        int finite = (p <= LARGEST_FINITE) & (q <= LARGEST_FINITE);
        int both_nan = (p > LARGEST_FINITE + 1) & (q > LARGEST_FINITE + 1);
        bits[i] = e->bits[i] != b->bits[i];
        unequal[i] = (uint8_t)(bits[i] & !both_nan & ((p | q) != 0));
        mismatched[i] = (uint8_t)(unequal[i] & !finite);
    }
    note(bits, at, parts, &f->bits_unequal, &unused, &unused);
    note(unequal, at, parts, &f->unequal, &f->first_unequal, &f->last_unequal);
    note(mismatched, at, parts, &f->mismatched, &f->first_mismatched, &f->last_mismatched);
}

/* The weights of the rows that were passed over, which end at `until`. */
static void FN(catch_up)(walk *w, const unsigned char *until) {
    for (; w->passed > 0; w->passed--) {
        FN(row) row;
        FN(take)(&row, until - w->passed * LANES * (int64_t)sizeof(STORED), LANES);
        FN(take_values)(&row);
        FN(add_weights)(row.values, &w->sums[w->now]);
    }
    w->passed = -1;
}

/* Hold a row to what arithmetic allows. */
static void FN(look)(const VALUE *e, const VALUE *b, int64_t at, int64_t left, const pair *given, figures *f) {
    _Alignas(64) double wide_e[LANES], wide_b[LANES];
    if (left <= 0) return;
    for (int i = 0; i < LANES; i++) {
        wide_e[i] = (double)e[i];
        wide_b[i] = (double)b[i];
    }
    look_at_row(wide_e, wide_b, at, left < LANES ? (int)left : LANES, given->limits, f);
}

/* One row of anything, or the parts that are left. */
static void FN(compare_row)(const pair *given, int64_t from, int64_t left, walk *w, figures *f) {
    const unsigned char *from_b = given->baseline + from * (int64_t)sizeof(STORED);
    const int64_t at = given->start + from;
    FN(row) e, b;
    FN(take)(&e, given->evaluated + from * (int64_t)sizeof(STORED), left);
    FN(take)(&b, from_b, left);
    if (w->passed >= 0 && memcmp(e.bits, b.bits, LANES * sizeof(STORED)) == 0) {
        w->passed++;
        return;
    }
    FN(catch_up)(w, from_b);
    FN(note_all)(&e, &b, at, given->parts_of_element, f);
    FN(take_values)(&e);
    FN(take_values)(&b);
    if (given->limits) FN(look)(e.values, b.values, at, left, given, f);
    FN(keep_finite)(&e, &b);
    FN(distances) found = FN(distances_of)(e.bits, b.bits, LANES);
    f->ulp = found.ulp > f->ulp ? found.ulp : f->ulp;
    FN(add_rows)(e.values, b.values, 1, w, f, NULL, e.bits, b.bits);
    w->now = !w->now;
    FN(raise_maxima)(e.values, b.values, given->small, at, f);
}

/* A band of single parts; false, and nothing done, where one is no finite number. */
static int FN(compare_band)(const PATTERN *e, const PATTERN *b, const pair *given, int64_t from, walk *w, held *h,
                            figures *f) {
    FN(distances) found = FN(distances_of)(e, b, FN(BAND_PARTS));
    if (w->passed >= 0 && !found.bits) {
        w->passed += FN(BAND);
        return 1;
    }
#if defined(WIDEN)
    _Alignas(64) VALUE values_e[FN(BAND_PARTS)], values_b[FN(BAND_PARTS)];
    WIDEN((const uint16_t *)e, values_e, FN(BAND_PARTS));
    WIDEN((const uint16_t *)b, values_b, FN(BAND_PARTS));
#else
    const VALUE *values_e = (const VALUE *)e, *values_b = (const VALUE *)b;
#endif
    FN(catch_up)(w, given->baseline + from * (int64_t)sizeof(STORED));
    const PATTERN *next_e = e + FN(BAND_PARTS), *next_b = b + FN(BAND_PARTS);
    const int64_t at = given->start + from, left = given->count - from;
    int seen;
    if (given->limits && found.unequal) {
        hold_band(h, given->limits, at, left < FN(BAND_PARTS) ? (int)left : FN(BAND_PARTS), FN(BAND_PARTS), f);
        seen = FN(add_held_rows)(values_e, values_b, w, f, h, next_e, next_b);
    } else {
        seen = FN(add_rows)(values_e, values_b, FN(BAND), w, f, NULL, next_e, next_b);
    }
    if (!(seen & FN(FINITE))) return 0;
    w->now = !w->now;
    f->bits_unequal += found.bits;
    f->unequal += found.unequal;
    f->ulp = found.ulp > f->ulp ? found.ulp : f->ulp;
    if (found.unequal) {
        w->last = from;
        if (f->first_unequal < 0) {
            int64_t i = 0; /* somebody may be writing, and nothing may differ any more */
            while (i < FN(BAND_PARTS) - 1 && i < left - 1 && !FN(differ)(e[i], b[i])) i++;
            f->first_unequal = at + i;
        }
    }
    if (seen & FN(ABOVE))
        for (int i = 0; i < FN(BAND_PARTS) && i < left; i += LANES)
            FN(raise_maxima)(values_e + i, values_b + i, given->small, at + i, f);
    if (seen & FN(OUTSIDE))
        for (int i = 0; i < FN(BAND_PARTS); i += LANES)
            FN(look)(values_e + i, values_b + i, at + i, left - i, given, f);
    return 1;
}

/* Where the band at `from` is: its own memory, or a copy with zeros behind it. */
static const PATTERN *FN(taken)(const unsigned char *side, int64_t from, int64_t left, PATTERN *own) {
    const unsigned char *address = side + from * (int64_t)sizeof(STORED);
    if (left >= FN(BAND_PARTS) && (uintptr_t)address % sizeof(STORED) == 0) return (const PATTERN *)address;
    const int64_t count = left < FN(BAND_PARTS) ? left : FN(BAND_PARTS);
    memcpy(own, address, (size_t)count * sizeof(STORED));
    memset(own + count, 0, (size_t)(FN(BAND_PARTS) - count) * sizeof(STORED));
    return own;
}

static void FN(compare)(const pair *given, figures *f, cell_sums *out, uint8_t *equal) {
    _Alignas(64) PATTERN own_e[FN(BAND_PARTS)], own_b[FN(BAND_PARTS)];
    walk w;
    w.now = 0;
    w.last = -1;
    held h;
    if (given->limits) begin_holding(&h, given->limits, given->start, given->count);
    begin(f);
    for (int64_t cell = 0; cell * CELL < given->count; cell++) {
        int64_t end = given->count < (cell + 1) * CELL ? given->count : (cell + 1) * CELL;
        w.passed = 0;
        memset(&w.sums[w.now], 0, sizeof w.sums[w.now]);
        for (int64_t i = cell * CELL; i < end; i += FN(BAND_PARTS))
            if (given->parts_of_element > 1 ||
                !FN(compare_band)(FN(taken)(given->evaluated, i, end - i, own_e),
                                  FN(taken)(given->baseline, i, end - i, own_b), given, i, &w, &h, f))
                for (int64_t k = i; k < end && k < i + FN(BAND_PARTS); k += LANES)
                    FN(compare_row)(given, k, end - k, &w, f);
        equal[cell] = w.passed >= 0;
        if (w.passed < 0) out[cell] = folded_sums(&w.sums[w.now]);
    }
    if (w.last < 0 || given->start + w.last < f->last_unequal) return;
    const PATTERN *e = FN(taken)(given->evaluated, w.last, given->count - w.last, own_e);
    const PATTERN *b = FN(taken)(given->baseline, w.last, given->count - w.last, own_b);
    int64_t i = FN(BAND_PARTS) - 1;
    while (i > 0 && !FN(differ)(e[i], b[i])) i--;
    f->last_unequal = given->start + w.last + i;
}

static int64_t FN(weigh)(const pair *given, cell_sums *out, const uint8_t *wanted) {
    int64_t finite = 0;
    for (int64_t cell = 0; cell * CELL < given->count; cell++) {
        if (!wanted[cell]) continue;
        int64_t end = given->count < (cell + 1) * CELL ? given->count : (cell + 1) * CELL;
        lanes sums;
        memset(sums.weight, 0, sizeof sums.weight);
        memset(sums.weight_squared, 0, sizeof sums.weight_squared);
        for (int64_t i = cell * CELL; i < end; i += LANES) {
            FN(row) b;
            FN(take)(&b, given->baseline + i * (int64_t)sizeof(STORED), end - i);
            int64_t length = end - i < LANES ? end - i : LANES;
            for (int64_t k = 0; k < length; k++) finite += (b.bits[k] & MAGNITUDE) <= LARGEST_FINITE;
            FN(take_values)(&b);
            FN(add_weights)(b.values, &sums);
        }
        out[cell] = (cell_sums){.weight = folded(sums.weight), .weight_squared = folded(sums.weight_squared)};
    }
    return finite;
}

static int64_t FN(beyond)(const pair *given, double threshold, double scale) {
    int64_t number = 0, unused = 0;
    for (int64_t i = 0; i < given->count; i += LANES) {
        FN(row) e, b;
        uint8_t marks[LANES];
        FN(take)(&e, given->evaluated + i * (int64_t)sizeof(STORED), given->count - i);
        FN(take)(&b, given->baseline + i * (int64_t)sizeof(STORED), given->count - i);
        FN(take_values)(&e);
        FN(take_values)(&b);
        for (int k = 0; k < LANES; k++) {
            double x = (double)e.values[k], y = (double)b.values[k], d = fabs(x - y), m = fabs(y);
            /* A baseline of Inf gives NaN; nothing finite is near it. */
            d = d <= 0x1.fffffffffffffp1023 ? d : INFINITY;
            m = m < scale ? scale : m;
            double scaled = d == INFINITY ? INFINITY : d / m;
            marks[k] = (uint8_t)((x != y) & !((x != x) & (y != y)) & (scaled > threshold));
        }
        note(marks, i, given->parts_of_element, &number, &unused, &unused);
    }
    return number;
}

#undef FN
#undef NAME
#undef STORED
#undef VALUE
#undef PATTERN
#undef UNSIGNED
#undef MAGNITUDE
#undef LARGEST_FINITE
#undef LOADED
#undef WIDEN
#undef MAY_OVERFLOW
