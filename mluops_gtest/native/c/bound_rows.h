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

/* The end of the run of elements that share the number of element `at + i`; no more than `count`. */
static int end_of_run(const spread *s, int64_t at, int i, int count) {
    int64_t left = s->repeat - (at + i) % s->repeat;
    return left < count - i ? i + (int)left : count;
}

static void fill(double *out, int from, int until, double number) {
    for (int i = from; i < until; i++) out[i] = number;
}

/* The numbers of the `count` elements from element `at` on: where they are, or spread out. */
static const double *spread_out(const spread *s, int64_t at, int count, double *out) {
    if (s->repeat == 1 && s->kind == F64) {
        const unsigned char *numbers = s->numbers + at * 8;
        if (count == LANES && (uintptr_t)numbers % sizeof(double) == 0) return (const double *)numbers;
        memcpy(out, numbers, (size_t)count * 8);
    } else if (s->repeat == 1 && s->kind == F32) {
        float own[LANES] = {0};
        memcpy(own, s->numbers + at * 4, (size_t)count * 4);
        for (int i = 0; i < LANES; i++) out[i] = (double)own[i];
    } else {
        for (int i = 0, end; i < count; i = end) {
            end = end_of_run(s, at, i, count);
            fill(out, i, end, number_at(s, (at + i) / s->repeat));
        }
    }
    return out;
}

/* What the roundings of sums make of them: a share of the magnitude, and what underflows; 0 where nothing is rounded. */
static void spread_roundings(const bound *limits, int64_t at, int count, double *share, double *underflow) {
    for (int i = 0, end; i < count; i = end) {
        end = end_of_run(&limits->roundings, at, i, count);
        double roundings = number_at(&limits->roundings, (at + i) / limits->roundings.repeat);
        double lost = roundings * limits->roundoff;
        fill(share, i, end, roundings == 0 ? 0.0 : (lost < 1 ? lost / (1 - lost) : INFINITY) + limits->loss);
        fill(underflow, i, end, roundings == 0 ? 0.0 : (roundings + 1) * limits->tiny / 2);
    }
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
    while (shares[i] != share) i++;
    f->ratio = share;
    f->furthest = at + i;
    /* Sums of infinities allow no number; where one side is none, nothing is allowed. */
    f->allowed = allowed[i] == allowed[i] ? allowed[i] : 0.0;
}

/* Elements `at` ... of both sides, of which `count` are there and the rest are equal. */
static void look_at_row(const double *e, const double *b, int64_t at, int count, const bound *limits, figures *f) {
    _Alignas(64) double own_magnitude[LANES], share[LANES], underflow[LANES], own_unit[LANES], allowed[LANES];
    for (int i = count; i < LANES; i++) own_magnitude[i] = share[i] = underflow[i] = own_unit[i] = 0.0;
    const double *magnitude = spread_out(&limits->magnitude, at, count, own_magnitude);
    const double *unit = spread_out(&limits->unit, at, count, own_unit);
    spread_roundings(limits, at, count, share, underflow);
    const int64_t size = limits->magnitude.repeat == 1 ? limits->magnitude.kind == F32 ? 4 : 8 : 0;
    const unsigned char *soon = limits->magnitude.numbers + (at + 4 * LANES) * size;
    /* A product tells where no quotient can be above the furthest, or above 1; not where it could be subnormal. */
    const double known = cautious(f->ratio < 1 ? f->ratio : 1);
    masks within = ~(masks){0};
    for (int i = 0; i < LANES; i += WIDTH) {
        __builtin_prefetch(soon + i * size);
        /* Sums that round, which most do, are allowed that share at least. */
        doubles x = loaded(e + i), y = loaded(b + i), m = loaded(magnitude + i), least = m * loaded(share + i) * known;
        within &= ((magnitudes(x - y) <= lower(least, 0x1.fffffffffffffp1023)) & (least >= 1e-280) &
                   (m > loaded(unit + i) * limits->sums)) | (x == y);
    }
    if (!any(~within)) return;
    within = ~(masks){0};
    for (int i = 0; i < LANES; i += WIDTH) {
        doubles x = loaded(e + i), y = loaded(b + i);
        doubles may = allowance(x, y, loaded(magnitude + i), loaded(share + i), loaded(underflow + i),
                                loaded(unit + i), limits);
        memcpy(allowed + i, &may, sizeof may);
        within &= ((magnitudes(x - y) <= may * known) & (may >= 1e-280)) | (x == y);
    }
    if (any(~within)) note_shares(e, b, allowed, at, f);
}
