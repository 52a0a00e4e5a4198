/* What each element of a row may be off by, and how far it is from that: the formulas of criteria/elementwise.py, step by
 * step in double, so that numpy has the same bits. */

static double number_at(const spread *s, int64_t index) {
    double f64;
    float f32;
    int64_t i64;
    switch (s->kind) {
    case F32: memcpy(&f32, s->numbers + index * 4, 4); return (double)f32;
    case F64: memcpy(&f64, s->numbers + index * 8, 8); return f64;
    default: memcpy(&i64, s->numbers + index * 8, 8); return (double)i64;
    }
}

/* Elements that share a number: which number it is, and how many of them are left. */
typedef struct {
    int64_t index, left;
} run;

static run run_at(const spread *s, int64_t at) {
    const int64_t index = at / s->repeat;
    return (run){index, (index + 1) * s->repeat - at};
}

/* The element behind the run that begins with element `i`; no more than `count`. */
static int end_of(const run *r, int i, int count) { return r->left < count - i ? i + (int)r->left : count; }

static void go_on(run *r, const spread *s) { *r = (run){r->index + 1, s->repeat}; }

static void fill(double *out, int from, int until, double number) {
    for (int i = from; i < until; i++) out[i] = number;
}

/* The numbers of the `count` elements from element `at` on, with zeros behind them up to `size`: where they are, or
 * spread out. */
static const double *spread_out(const spread *s, int64_t at, int count, int size, double *out) {
    if (s->repeat == 1 && s->kind == F64) {
        const unsigned char *numbers = s->numbers + at * 8;
        if (count == size && (uintptr_t)numbers % sizeof(double) == 0) return (const double *)numbers;
        memcpy(out, numbers, (size_t)count * 8);
    } else if (s->repeat == 1 && s->kind == F32) {
        for (int i = 0; i < count; i++) {
            float number;
            memcpy(&number, s->numbers + (at + i) * 4, 4);
            out[i] = (double)number;
        }
    } else {
        run r = run_at(s, at);
        for (int i = 0, end; i < count; i = end, go_on(&r, s)) {
            end = end_of(&r, i, count);
            fill(out, i, end, number_at(s, r.index));
        }
    }
    fill(out, count, size, 0.0);
    return out;
}

/* Those that a term meets: where the sum is cut into blocks, that of its own block and those of their sum. */
static double met_of(double roundings, const bound *limits) {
    return roundings >= limits->blocks_from ? ceil(sqrt(roundings)) + 1 : roundings;
}

/* What so many roundings make of a sum: a share of its magnitude, and what underflows; 0 where nothing is rounded. */
static double share_of(double roundings, const bound *limits) {
    const double lost = met_of(roundings, limits) * limits->roundoff;
    return roundings == 0 ? 0.0 : (lost < 1 ? lost / (1 - lost) : INFINITY) + limits->loss;
}

static double underflow_of(double roundings, const bound *limits) {
    return roundings == 0 ? 0.0 : (met_of(roundings, limits) + 1) * limits->tiny / 2;
}

enum { HELD = 4 * LANES };

/* What tells by a few products that all elements of a band are within: where its magnitude is above `exact`, a sum
 * rounds; it is allowed this share of the magnitude at least, and half of the last place of the result. */
typedef struct {
    const double *magnitude;
    int64_t each; /* -1: a share for each element; 0: those of the first elements are those of all */
    double known, half, half_of_evaluated;
    const unsigned char *soon; /* the magnitudes behind the band, and the bytes of one: 0 where elements share them */
    int64_t size;
    _Alignas(64) double share[HELD], exact[HELD], own_magnitude[HELD];
} held;

static void hold_shares(held *h, const bound *limits, int64_t at, int count) {
    run r = run_at(&limits->roundings, at), u = run_at(&limits->unit, at);
    for (int i = 0, end; i < count; i = end, go_on(&r, &limits->roundings)) {
        end = end_of(&r, i, count);
        const double share = share_of(number_at(&limits->roundings, r.index), limits) + limits->behind;
        /* Where only the result is rounded, products tell nothing. */
        fill(h->share, i, end, share > 0 ? share : -INFINITY);
    }
    for (int i = 0, end; i < count; i = end, go_on(&u, &limits->unit)) {
        end = end_of(&u, i, count);
        const double exact = limits->loss == 0 ? number_at(&limits->unit, u.index) * limits->sums : 0.0;
        fill(h->exact, i, end, exact >= 0 ? exact : INFINITY);
    }
}

static int is_shared(const spread *s, int64_t at, int64_t count) { return run_at(s, at).left >= count; }

/* Before the bands of the `count` elements from element `at` on. */
static void begin_holding(held *h, const bound *limits, int64_t at, int64_t count) {
    h->each = -!(is_shared(&limits->roundings, at, count) && is_shared(&limits->unit, at, count));
    h->size = limits->magnitude.repeat > 1 ? 0 : limits->magnitude.kind == F32 ? 4 : 8;
    h->half = ldexp(1.0, (int)-limits->significant);
    h->half_of_evaluated = limits->rounds_twice ? h->half : 0.0;
    fill(h->share, 0, HELD, 0.0);
    fill(h->exact, 0, HELD, 0.0);
    if (h->each) return;
    hold_shares(h, limits, at, 1);
    fill(h->share, 1, WIDTH, h->share[0]);
    fill(h->exact, 1, WIDTH, h->exact[0]);
}

/* The band of `size` elements from element `at` on, of which `count` are there. */
static void hold_band(held *h, const bound *limits, int64_t at, int count, int size, const figures *f) {
    h->magnitude = spread_out(&limits->magnitude, at, count, size, h->own_magnitude);
    h->soon = limits->magnitude.numbers + (at + size) * h->size;
    /* No quotient is above the furthest so far, or above 1, where the error is not above that share of what is allowed. */
    h->known = cautious(f->ratio < 1 ? f->ratio : 1);
    if (h->each) hold_shares(h, limits, at, count);
}

static inline doubles half_ulps(doubles numbers, int64_t smallest, int64_t significant) {
    /* Exponents as frexp has them, which gives 0 to what is no number; subnormal numbers have the smallest. */
    masks exponent = (masks)((words)numbers >> 52 & 0x7ff) - 1022;
    exponent &= ~(exponent == 1025);
    const masks larger = exponent > smallest;
    exponent = (exponent & larger) | (smallest & ~larger);
    /* 2^53 times as much is always a normal number. */
    return (doubles)((words)(exponent - significant - 1 + 53 + 1023) << 52) * 0x1p-53;
}

/* What each of some elements may be off by. */
static inline doubles allowance(doubles e, doubles b, doubles magnitude, doubles share, doubles underflow, doubles unit,
                                const bound *limits) {
    const doubles none = {0};
    const masks nothing = magnitude == 0;
    masks exact = (magnitude <= unit * limits->sums) & (unit >= limits->tiny);
    if (limits->loss != 0) exact = (masks){0};
    doubles total = pick(exact | (underflow == 0) | nothing, none, magnitude * share + underflow);
    total += (magnitude * limits->behind + limits->behind_underflow) * pick(magnitude > 0, none + 1.0, none);
    doubles rounding = half_ulps(b, limits->smallest, limits->significant);
    if (limits->rounds_twice) rounding += half_ulps(e, limits->smallest, limits->significant);
    const masks kept = (magnitude <= unit * limits->results) & (unit >= limits->smallest_unit);
    return pick((total == 0) & (kept | nothing), none, total + rounding);
}

/* The row has an element beyond what is allowed, or one that may be further from it than any before. */
static void note_shares(const double *e, const double *b, const double *allowed, int64_t at, figures *f) {
    _Alignas(64) double shares[LANES], most[LANES];
    uint8_t marks[LANES];
    for (int i = 0; i < LANES; i++) {
        double share = fabs(e[i] - b[i]) / allowed[i];
        share = allowed[i] < INFINITY ? share : 0.0;
        /* What is infinite or no number on one side is off by more than anything allows. */
        share = fabs(e[i]) < INFINITY && fabs(b[i]) < INFINITY ? share : INFINITY;
        share = e[i] == b[i] || (e[i] != e[i] && b[i] != b[i]) ? 0.0 : share;
        most[i] = shares[i] = share;
        marks[i] = share > 1;
    }
    note(marks, at, 1, &f->beyond, &f->first_beyond, &f->last_beyond);
    const double share = highest(most);
    if (!(share > f->ratio)) return;
    int i = 0;
    while (i < LANES - 1 && shares[i] != share) i++;
    f->ratio = share;
    f->furthest = at + i;
    /* Sums of infinities allow no number; where one side is none, nothing is allowed. */
    f->allowed = allowed[i] == allowed[i] ? allowed[i] : 0.0;
}

/* Elements `at` ... of both sides, of which `count` are there and the rest are equal. */
static void look_at_row(const double *e, const double *b, int64_t at, int count, const bound *limits, figures *f) {
    _Alignas(64) double own_magnitude[LANES], own_roundings[LANES], own_unit[LANES], allowed[LANES];
    _Alignas(64) double share[LANES], underflow[LANES];
    const double *magnitude = spread_out(&limits->magnitude, at, count, LANES, own_magnitude);
    const double *roundings = spread_out(&limits->roundings, at, count, LANES, own_roundings);
    const double *unit = spread_out(&limits->unit, at, count, LANES, own_unit);
    for (int i = 0; i < LANES; i++) {
        share[i] = share_of(roundings[i], limits);
        underflow[i] = underflow_of(roundings[i], limits);
    }
    const double known = cautious(f->ratio < 1 ? f->ratio : 1);
    masks within = ~(masks){0};
    for (int i = 0; i < LANES; i += WIDTH) {
        doubles x = loaded(e + i), y = loaded(b + i);
        doubles may = allowance(x, y, loaded(magnitude + i), loaded(share + i), loaded(underflow + i),
                                loaded(unit + i), limits);
        memcpy(allowed + i, &may, sizeof may);
        /* A product tells where no quotient can be above the furthest, or above 1; not where it could be subnormal. */
        within &= ((magnitudes(x - y) <= may * known) & (may >= 1e-280)) | (x == y);
    }
    if (any(~within)) note_shares(e, b, allowed, at, f);
}
