/* Comparison of one integer type, LANES parts at a time. The file that includes it defines NAME, STORED, and WIDE where
 * double cannot hold every value. */
#define FN(name) JOIN(name, NAME)

#if defined(WIDE)
/* Unsigned subtraction wraps to the true distance, which may need all 64 bits. */
#define DISTANCE(x, y) ((double)((x) > (y) ? (uint64_t)(x) - (uint64_t)(y) : (uint64_t)(y) - (uint64_t)(x)))
#else
#define DISTANCE(x, y) fabs((double)(x) - (double)(y))
#endif

static const STORED *FN(take)(const unsigned char *from, int64_t count, STORED *own) {
    if (count >= LANES && (uintptr_t)from % sizeof(STORED) == 0) return (const STORED *)from;
    if (count < LANES) memset(own, 0, LANES * sizeof(STORED));
    memcpy(own, from, (size_t)(count < LANES ? count : LANES) * sizeof(STORED));
    return own;
}

static void FN(add_weights)(const STORED *b, lanes *sums) {
    for (int i = 0; i < LANES; i++) {
        double m = fabs((double)b[i]);
        sums->weight[i] += m;
        sums->weight_squared[i] += m * m;
    }
}

static void FN(add_row)(const STORED *restrict e, const STORED *restrict b, int64_t at, figures *f,
                        lanes *restrict sums) {
    const double largest = f->largest;
    int64_t above = 0;
    for (int i = 0; i < LANES; i++) {
        double d = DISTANCE(e[i], b[i]), m = fabs((double)b[i]);
        sums->difference[i] += d;
        sums->difference_squared[i] += d * d;
        sums->weight[i] += m;
        sums->weight_squared[i] += m * m;
        above |= d > largest ? -1 : 0;
    }
    if (!above) return;
    for (int i = 0; i < LANES; i++) {
        double d = DISTANCE(e[i], b[i]);
        if (d > f->largest) {
            f->largest = f->error = d;
            f->worst = at + i;
        }
    }
}

static void FN(compare)(const pair *given, figures *f, cell_sums *out, uint8_t *equal) {
    begin(f);
    for (int64_t cell = 0; cell * CELL < given->count; cell++) {
        int64_t end = given->count < (cell + 1) * CELL ? given->count : (cell + 1) * CELL;
        int64_t passed = 0; /* rows before the first unequal one, whose weights wait; then -1 */
        lanes sums;
        memset(&sums, 0, sizeof sums);
        for (int64_t i = cell * CELL; i < end; i += LANES) {
            _Alignas(64) STORED own_e[LANES], own_b[LANES];
            uint8_t marks[LANES];
            const STORED *e = FN(take)(given->evaluated + i * (int64_t)sizeof(STORED), end - i, own_e);
            const STORED *b = FN(take)(given->baseline + i * (int64_t)sizeof(STORED), end - i, own_b);
            if (memcmp(e, b, LANES * sizeof(STORED)) == 0) {
                if (passed < 0)
                    FN(add_weights)(b, &sums);
                else
                    passed++;
                continue;
            }
            for (int64_t row = 0; row < passed; row++) {
                _Alignas(64) STORED own[LANES];
                int64_t first = cell * CELL + row * LANES;
                FN(add_weights)(FN(take)(given->baseline + first * (int64_t)sizeof(STORED), LANES, own), &sums);
            }
            passed = -1;
            for (int k = 0; k < LANES; k++) marks[k] = e[k] != b[k];
            note(marks, given->start + i, 1, &f->unequal, &f->first_unequal, &f->last_unequal);
            FN(add_row)(e, b, given->start + i, f, &sums);
        }
        equal[cell] = passed >= 0;
        if (passed < 0) out[cell] = folded_sums(&sums);
    }
    f->bits_unequal = f->unequal;
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
            _Alignas(64) STORED own[LANES];
            FN(add_weights)(FN(take)(given->baseline + i * (int64_t)sizeof(STORED), end - i, own), &sums);
        }
        finite += end - cell * CELL;
        out[cell] = (cell_sums){.weight = folded(sums.weight), .weight_squared = folded(sums.weight_squared)};
    }
    return finite;
}

static int64_t FN(beyond)(const pair *given, double threshold, double scale) {
    int64_t number = 0, unused = 0;
    for (int64_t i = 0; i < given->count; i += LANES) {
        _Alignas(64) STORED own_e[LANES], own_b[LANES];
        uint8_t marks[LANES];
        const STORED *e = FN(take)(given->evaluated + i * (int64_t)sizeof(STORED), given->count - i, own_e);
        const STORED *b = FN(take)(given->baseline + i * (int64_t)sizeof(STORED), given->count - i, own_b);
        for (int k = 0; k < LANES; k++) {
            double d = DISTANCE(e[k], b[k]), m = fabs((double)b[k]);
            m = m < scale ? scale : m;
            marks[k] = (uint8_t)((e[k] != b[k]) & (d / m > threshold));
        }
        note(marks, i, 1, &number, &unused, &unused);
    }
    return number;
}

#undef DISTANCE
#undef FN
#undef NAME
#undef STORED
#undef WIDE
