/* Comparison of one floating-point type, LANES parts at a time. The file that includes it defines NAME, STORED (what is
 * in memory), VALUE (what is computed with before it is widened to double), PATTERN and UNSIGNED (the bits of a part),
 * MAGNITUDE and LARGEST_FINITE (masks of PATTERN); WIDEN where STORED is no number in C; MAY_OVERFLOW where a difference
 * of two finite numbers may leave double. */
#define FN(name) JOIN(name, NAME)

/* One row of one side: where its bits and its numbers are, and room for those that must be made. */
typedef struct {
    const PATTERN *bits;
    const VALUE *values;
    _Alignas(64) PATTERN own_bits[LANES];
    _Alignas(64) VALUE own_values[LANES];
} FN(row);

static void FN(take_values)(FN(row) *row) {
#if defined(WIDEN)
    WIDEN((const uint16_t *)row->bits, row->own_values);
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
static int FN(differ)(const FN(row) *e, const FN(row) *b, int64_t i) {
    return e->bits[i] != b->bits[i] && ((e->bits[i] | b->bits[i]) & MAGNITUDE) != 0;
}

/* How the bits of a row of finite numbers differ. */
typedef struct {
    UNSIGNED bits, unequal, ulp;
} FN(distances);

static FN(distances) FN(distances_of)(const PATTERN *e, const PATTERN *b) {
    UNSIGNED bits = 0, unequal = 0, most = 0;
    for (int i = 0; i < LANES; i++) {
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
        for (int i = 0; errors[i] != error; i++) f->worst++;
    }
}

/* The figures of a row of finite numbers. */
static void FN(add_row)(const VALUE *restrict e, const VALUE *restrict b, double small, int64_t at, figures *f,
                        lanes *restrict sums) {
    const double largest = f->largest, error = f->error, relative = cautious(f->relative);
    int64_t above = 0;
    for (int i = 0; i < LANES; i++) {
        double y = (double)b[i], d = fabs((double)e[i] - y), m = fabs(y);
        sums->difference[i] += d;
        sums->difference_squared[i] += d * d;
        sums->weight[i] += m;
        sums->weight_squared[i] += m * m;
        double limit = m >= small ? relative * (m + EPSILON) : error;
        limit = limit < largest ? limit : largest;
#if defined(MAY_OVERFLOW)
        limit = limit < 0x1.fffffffffffffp1023 ? limit : 0x1.fffffffffffffp1023;
#endif
        above |= d > limit ? -1 : 0;
    }
    if (above) FN(new_maxima)(e, b, small, at, f);
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

/* What is carried from row to row of one cell. */
typedef struct {
    int64_t passed; /* rows before the first unequal one, whose weights wait; then -1 */
    lanes sums;
} FN(cell);

static void FN(compare_row)(const pair *given, int64_t from, int64_t left, FN(cell) *cell, figures *f) {
    const unsigned char *from_b = given->baseline + from * (int64_t)sizeof(STORED);
    const int64_t at = given->start + from;
    FN(row) e, b;
    FN(take)(&e, given->evaluated + from * (int64_t)sizeof(STORED), left);
    FN(take)(&b, from_b, left);
    PATTERN different = 0, largest = 0;
    for (int i = 0; i < LANES; i++) {
        PATTERN p = e.bits[i] & MAGNITUDE, q = b.bits[i] & MAGNITUDE;
        different |= e.bits[i] ^ b.bits[i];
        largest = p > largest ? p : largest;
        largest = q > largest ? q : largest;
    }
    if (!different) {
        if (cell->passed >= 0) {
            cell->passed++;
        } else {
            FN(take_values)(&b);
            FN(add_weights)(b.values, &cell->sums);
        }
        return;
    }
    for (int64_t rows = cell->passed; rows > 0; rows--) {
        FN(row) passed;
        FN(take)(&passed, from_b - rows * LANES * (int64_t)sizeof(STORED), LANES);
        FN(take_values)(&passed);
        FN(add_weights)(passed.values, &cell->sums);
    }
    cell->passed = -1;
    const int infinite = largest > LARGEST_FINITE, counted = infinite || given->parts_of_element > 1;
    if (counted) FN(note_all)(&e, &b, at, given->parts_of_element, f);
    if (infinite) {
        FN(keep_finite)(&e, &b);
    } else {
        FN(take_values)(&e);
        FN(take_values)(&b);
    }
    FN(distances) found = FN(distances_of)(e.bits, b.bits);
    f->ulp = found.ulp > f->ulp ? found.ulp : f->ulp;
    if (!counted) {
        f->bits_unequal += found.bits;
        f->unequal += found.unequal;
        if (found.unequal && f->first_unequal < 0)
            for (f->first_unequal = at; !FN(differ)(&e, &b, f->first_unequal - at);) f->first_unequal++;
        if (found.unequal)
            for (f->last_unequal = at + LANES - 1; !FN(differ)(&e, &b, f->last_unequal - at);) f->last_unequal--;
    }
    FN(add_row)(e.values, b.values, given->small, at, f, &cell->sums);
}

static void FN(compare)(const pair *given, figures *f, cell_sums *out, uint8_t *equal) {
    begin(f);
    for (int64_t cell = 0; cell * CELL < given->count; cell++) {
        int64_t end = given->count < (cell + 1) * CELL ? given->count : (cell + 1) * CELL;
        FN(cell) here;
        memset(&here, 0, sizeof here);
        for (int64_t i = cell * CELL; i < end; i += LANES) FN(compare_row)(given, i, end - i, &here, f);
        equal[cell] = here.passed >= 0;
        if (here.passed < 0) out[cell] = folded_sums(&here.sums);
    }
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
#undef WIDEN
#undef MAY_OVERFLOW
